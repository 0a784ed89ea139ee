package dev.kilohertz;

/** What a stream brings: rows of nodes, and what is to be known about them. */
public sealed interface Event permits Row, Notice, Misses, ChannelChange {}
