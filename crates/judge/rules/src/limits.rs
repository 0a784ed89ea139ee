//! What rules may take, in numbers.

use std::time::Duration;

/// Bytes of a rule file, or of a test file: 10,000 rules of 400 bytes.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// Files of a set: a site has some dozens.
pub const FILES_MAX: usize = 1_000;
/// Groups of all files together: each has its own times of evaluation.
pub const GROUPS_MAX: usize = 10_000;
/// Rules of all files together: each is evaluated at each interval of its group.
pub const RULES_MAX: usize = 50_000;
/// Labels of a rule, and annotations of a rule: each is expanded for each alert.
pub const RULE_LABELS_MAX: usize = 64;
/// Bytes of the name of a group, a rule or a label.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Lists and maps within each other in a YAML file: a rule file needs five.
pub const YAML_DEPTH_MAX: usize = 32;
/// Values of a YAML file, those of an alias counted at each use: a few lines of aliases could stand for billions.
pub const YAML_VALUES_MAX: usize = 1_000_000;
/// Errors that are kept of one set: nobody reads more, and a large wrong file could give millions.
pub const FINDINGS_MAX: usize = 1_000;
/// Active alerts of one rule: some on each of 4,096 nodes.
pub const ALERTS_MAX: usize = 65_536;
/// Channels with rules that nodes judge; the rules of more stay at the hub. A node has 48 places for channels
/// of its hub: 16 for those that the store keeps, and these.
pub const CHANNELS_MAX: usize = 32;
/// Bytes of a template: a page of text.
pub const TEMPLATE_BYTES_MAX: usize = 16 << 10;
/// Actions of a template within each other: each takes stack.
pub const TEMPLATE_DEPTH_MAX: usize = 64;
/// Steps of one expansion of a template: an action, an argument, a turn of a loop each; a hundred times what a long table takes.
pub const EXPANSION_STEPS_MAX: usize = 100_000;
/// Bytes that one expansion gives, and that any text within it has: an e-mail shows less.
pub const EXPANSION_BYTES_MAX: usize = 64 << 10;
/// Queries of one expansion: each may read the whole store.
pub const EXPANSION_QUERIES_MAX: usize = 16;
/// Requests to load the files again that wait at one time: they wait for the evaluation that runs.
pub const RELOADS_WAITING_MAX: usize = 16;
/// How long a request to load the files again waits: less than the 5 s that a command waits for the beginning of an answer.
pub const RELOAD_MAX: Duration = Duration::from_secs(4);
/// Groups that are evaluated in turns, rule by rule: what each has recorded waits until its last rule.
pub const PASSES_MAX: usize = 16;
/// The shortest interval of a group (ms): one pass takes some milliseconds, and who needs more samples rules at nodes (`rules_rate`).
pub const INTERVAL_MIN: i64 = 10;
/// The most that queries of a group ask back in time (ms): 50 years; khz has no rows before 1970.
pub const QUERY_OFFSET_MAX: i64 = 50 * 365 * 86_400_000;
/// Bytes of an error of rules in a line of the log: the whole of it is at those who ask.
pub const LOGGED_ERROR_BYTES_MAX: usize = 1 << 10;
/// Bytes of one label's value in a line of the log.
pub const LOGGED_VALUE_BYTES_MAX: usize = 120;
/// Bytes of the annotations of all alerts of a rule: 65,536 of 500 bytes. Beyond it, alerts have none.
pub const RULE_TEXTS_BYTES_MAX: usize = 32 << 20;
/// Resolved alerts of one rule that are still mentioned, so that everybody hears of their end: as many as one way to people holds.
pub const RESOLVED_MAX: usize = 16_384;
/// Active alerts of all rules of a hub together: 64 on each of 4,096 nodes. Beyond it, rules with more alerts than before fail.
pub const HUB_ALERTS_MAX: usize = 262_144;
/// Bytes of the annotations of all alerts of a hub together: 262,144 of 256 bytes. Beyond it, further alerts have none.
pub const HUB_TEXTS_BYTES_MAX: usize = 64 << 20;
/// Bytes of a saved state that is read: four times what is written, since an earlier khz may have written more.
pub const STATE_READ_BYTES_MAX: usize = 256 << 20;
/// Bytes of a saved state: 65,536 alerts of 1 kB.
pub const STATE_BYTES_MAX: usize = 64 << 20;
/// Values of one input series of a test: 11 days at 1 Hz.
pub const SERIES_VALUES_MAX: usize = 1_000_000;
/// Evaluations of all rules in one test: 11 days at 1 Hz.
pub const EVALUATIONS_MAX: i64 = 1_000_000;
/// How long a rule that has fired at a node warns of it (ms): a day, in which people can act.
pub const SCORE_WINDOW: i64 = 86_400_000;
/// Rules that have a score: beyond it, the one that has not fired for longest loses its own.
pub const SCORED_RULES_MAX: usize = 1_024;
/// Warnings that have not ended, of all rules: four on each of 4,096 nodes. More firings are counted only.
pub const OPEN_WARNINGS_MAX: usize = 16_384;
/// Lead times of a rule that its median is made of.
pub const LEADS_MAX: usize = 256;
/// Failures without a warning that are remembered with their node and time; all are counted.
pub const UNFORETOLD_MAX: usize = 64;
/// Bytes of saved scores: 16,384 warnings of 300 bytes, and 1,024 rules of 4 kB.
pub const SCORES_BYTES_MAX: usize = 16 << 20;
