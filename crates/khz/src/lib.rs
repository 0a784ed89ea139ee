//! khz
