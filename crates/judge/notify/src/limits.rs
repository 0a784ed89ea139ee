//! The limits of notifications. docs/limits.md says what happens beyond each limit.

/// Alerts that one way (an Alertmanager, a webhook, ...) holds: four for each of 4,096 nodes.
pub const ALERTS_MAX: usize = 16_384;
/// Bytes of the alerts that one way holds: 2 KiB for each of them.
pub const ALERTS_BYTES_MAX: usize = 32 << 20;
/// Bytes of one alert: labels, annotations and the URL. A page of text for people fits.
pub const ALERT_BYTES_MAX: usize = 64 << 10;
/// Labels and annotations of one alert, each.
pub const ALERT_LABELS_MAX: usize = 128;
/// Alerts of one request to an Alertmanager, as Prometheus has them.
pub const BATCH_ALERTS_MAX: usize = 64;
/// Alerts that are sent alone because an Alertmanager refuses them. Beyond these, a refused request is not split: an Alertmanager
/// that refuses more than these would get twice the requests for nothing.
pub const SENT_ALONE_MAX: usize = 64;
/// Alerts that one message names. It counts the others.
pub const MESSAGE_ALERTS_MAX: usize = 64;
/// Bytes of the alerts that one message names: e-mail servers accept ten times this size.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a program's output that are kept, the last ones.
pub const OUTPUT_BYTES_MAX: usize = 16 << 10;
/// Bytes of a reply of an SMTP server: RFC 5321 has lines of 512 bytes, and servers list some twenty abilities.
pub const SMTP_REPLY_BYTES_MAX: usize = 16 << 10;
/// Bytes of the file that says what people were told: the labels of all alerts of a few ways.
pub const STATE_BYTES_MAX: u64 = 64 << 20;
/// Ways of one configuration: each may have a thread.
pub const WAYS_MAX: usize = 16;
/// Bytes of a problem that is shown or logged.
pub const PROBLEM_BYTES_MAX: usize = 1_024;
/// Lines in the log about the problems of a way in a minute: each is another problem.
pub const LINES_A_MINUTE_MAX: usize = 6;
/// Alerts with too many or too long labels that are remembered, so that each is named once: 8 KiB.
pub const UNFIT_MAX: usize = 1_024;
