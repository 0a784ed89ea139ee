//! `/sys/fs/bcache`: each set of caches and the disks behind them. Some numbers are there as the kernel shortens them for people
//! (`20.4G`). `priority_stats` is not read: the kernel locks and sorts all buckets for it. node_exporter reads it only if it is told to.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "bcache",
    path: "sys/fs/bcache",
    pieces: Pieces::Survey { subject: Subject::Tree("bcache"), captured: "survey/bcache" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; SET.len() + BACKING.len() + CACHE.len()] =
    Group::join(&[&SET_GROUP.each(&SET), &BACKING_GROUP.each(&BACKING), &CACHE_GROUP.each(&CACHE)]);

const SET_GROUP: Group = Group {
    label: "uuid",
    kind: "set",
    branch: Some(Branch { folders: "sys/fs/bcache/*-*", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

const BACKING_GROUP: Group = Group {
    label: "uuid",
    kind: "backing",
    instance_labels: &["backing_device"],
    branch: Some(Branch {
        folders: "sys/fs/bcache/*-*/bdev#",
        name: &[Part::Named(0), Part::Named(1)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

const CACHE_GROUP: Group = Group {
    label: "uuid",
    kind: "cache",
    instance_labels: &["cache_device"],
    branch: Some(Branch {
        folders: "sys/fs/bcache/*-*/cache#",
        name: &[Part::Named(0), Part::Named(1)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// A row for each number: kind, the end of its name, its file, unit, the end of node_exporter's name, help; and further properties.
macro_rules! numbers {
    ($($kind:ident $name:literal, $file:literal, $unit:ident, $family:literal, $help:literal $(.$more:ident($($value:expr)?))*;)*) => {
        [$($kind(concat!("bcache.", $name), $file, Unit::$unit, $help)
            .form(Form::Short)
            .every(SURVEY_PERIOD)
            .exposed(concat!("node_bcache_", $family), &[])$(.$more($($value)?))*),*]
    };
}

static SET: [Entry; 10] = numbers! {
    gauge "key_size", "average_key_size", Count, "average_key_size_sectors", "Sectors of data for each key, on average.";
    gauge "tree_memory", "btree_cache_size", Bytes, "btree_cache_size_bytes", "Memory that nodes of the tree take.";
    gauge "available", "cache_available_percent", Percent, "cache_available_percent", "Share of the cache without data that must be written back.";
    gauge "congested", "congested", Count, "congested", "How congested the cache is.";
    gauge "root_usage", "root_usage_percent", Percent, "root_usage_percent", "Share of the tree's root that is used.";
    gauge "tree_depth", "tree_depth", Count, "tree_depth", "Depth of the tree.";
    gauge "journal_entries", "internal/active_journal_entries", Count, "active_journal_entries", "Entries of the journal that are newer than the tree.";
    gauge "tree_nodes", "internal/btree_nodes", Count, "btree_nodes", "Nodes of the tree.";
    gauge "tree_read_time", "internal/btree_read_average_duration_us", Seconds, "btree_read_average_duration_seconds", "Time of a read of the tree, on average.".steps(6);
    counter "read_races", "internal/cache_read_races", Count, "cache_read_races_total", "Reads whose data was replaced meanwhile.";
};

static BACKING: [Entry; 13] = numbers! {
    counter "bypassed", "stats_total/bypassed", Bytes, "bypassed_bytes_total", "Reads and writes that went past the cache.";
    counter "hits", "stats_total/cache_hits", Count, "cache_hits_total", "Reads and writes that the cache could serve.";
    counter "misses", "stats_total/cache_misses", Count, "cache_misses_total", "Reads and writes that the cache could not serve.";
    counter "bypass_hits", "stats_total/cache_bypass_hits", Count, "cache_bypass_hits_total", "Those past the cache that it could have served.";
    counter "bypass_misses", "stats_total/cache_bypass_misses", Count, "cache_bypass_misses_total", "Those past the cache that it could not have served.";
    counter "collisions", "stats_total/cache_miss_collisions", Count, "cache_miss_collisions_total", "Data that a write had put into the cache when a read was about to.";
    counter "read_aheads", "stats_total/cache_readaheads", Count, "cache_readaheads_total", "Times that was read ahead (kernels before 5.17).";
    gauge "dirty", "dirty_data", Bytes, "dirty_data_bytes", "Data in the cache that must be written back.";
    gauge "dirty_target", "writeback_rate_debug: target: 1 of 1", Bytes, "dirty_target_bytes", "How much of such data there may be.";
    gauge "writeback_rate", "writeback_rate_debug: rate: 1 of 1", Bytes, "writeback_rate", "Bytes a second that are written back.";
    gauge "writeback_proportional", "writeback_rate_debug: proportional: 1 of 1", Bytes, "writeback_rate_proportional_term", "The part of this rate that follows how much there is to write.".signed();
    gauge "writeback_integral", "writeback_rate_debug: integral: 1 of 1", Bytes, "writeback_rate_integral_term", "The part of this rate that follows for how long there has been too much to write.".signed();
    gauge "writeback_change", "writeback_rate_debug: change: 1 of 1", Bytes, "writeback_change", "How this rate last changed.".signed();
};

static CACHE: [Entry; 3] = numbers! {
    gauge "io_errors", "io_errors", Count, "io_errors", "Errors of the cache; they are forgotten with time.";
    counter "metadata_written", "metadata_written", Bytes, "metadata_written_bytes_total", "Bytes written to the cache that are no data.";
    counter "written", "written", Bytes, "written_bytes_total", "Bytes of data written to the cache.";
};
