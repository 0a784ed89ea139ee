package dev.kilohertz;

/**
 * The channel of a stream was changed, or one that it uses. Rows of the new definition follow.
 *
 * @param name the channel
 * @param definition its new definition, as JSON (docs/channels.md)
 */
public record ChannelChange(String name, String definition) implements Event {}
