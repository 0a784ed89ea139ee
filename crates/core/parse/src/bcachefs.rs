//! `/sys/fs/bcachefs`: each file system, its devices, and what it has counted since it was made. Large numbers are there as the kernel
//! rounds them for people (`2.05G`), so that a rate of them comes in steps. bcachefs left the kernel with Linux 6.18; it is a module of
//! its own since.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "bcachefs",
    path: "sys/fs/bcachefs",
    pieces: Pieces::Survey { subject: Subject::Tree("bcachefs"), captured: "survey/bcachefs" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; COUNT] = Group::join(&[
    &FILE_SYSTEM_GROUP.each(&FILE_SYSTEM),
    // One group: the room for 130 of them would be taken on hosts without bcachefs, too.
    &[Group { entries: &COUNTERS, ..FILE_SYSTEM_GROUP }],
    &ERROR_GROUP.each(&ERROR),
    &ALGORITHM_GROUP.each(&ALGORITHM),
    &WRITE_GROUP.each(&WRITE),
    &DEVICE_GROUP.each(&DEVICE),
    &READ_GROUP.each(&READ),
    &WRITTEN_GROUP.each(&WRITTEN),
    &DEVICE_ERROR_GROUP.each(&DEVICE_ERROR),
]);

const COUNT: usize = FILE_SYSTEM.len()
    + 1
    + ERROR.len()
    + ALGORITHM.len()
    + WRITE.len()
    + DEVICE.len()
    + READ.len()
    + WRITTEN.len()
    + DEVICE_ERROR.len();

const FILE_SYSTEM_GROUP: Group = Group {
    label: "uuid",
    kind: "file_system",
    branch: Some(Branch { folders: "sys/fs/bcachefs/*-*", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

/// For a file system: the numbers in each line of a file.
const fn lines(kind: &'static str, label: &'static [&'static str], file: &'static str) -> Group {
    Group {
        label: "uuid",
        kind,
        instance_labels: label,
        branch: Some(Branch {
            folders: "sys/fs/bcachefs/*-*",
            name: &[Part::Named(0), Part::Word],
            words: Words::Lines(file, ""),
            ..Branch::PLAIN
        }),
        ..Group::PLAIN
    }
}

const ERROR_GROUP: Group = lines("error", &["error_type"], "errors");
const ALGORITHM_GROUP: Group = lines("algorithm", &["algorithm"], "compression_stats");
const WRITE_GROUP: Group = lines("write", &["type"], "btree_write_stats");

const DEVICE_GROUP: Group = Group {
    label: "uuid",
    kind: "device",
    instance_labels: &["device"],
    branch: Some(Branch {
        folders: "sys/fs/bcachefs/*-*/dev-#",
        name: &[Part::Named(0), Part::Captured(2)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// For a device: the numbers in each line below a heading of a file.
const fn lines_of_device(
    kind: &'static str,
    labels: &'static [&'static str],
    file: &'static str,
    heading: &'static str,
) -> Group {
    Group {
        label: "uuid",
        kind,
        instance_labels: labels,
        branch: Some(Branch {
            folders: "sys/fs/bcachefs/*-*/dev-#",
            name: &[Part::Named(0), Part::Captured(2), Part::Word],
            words: Words::Lines(file, heading),
            ..Branch::PLAIN
        }),
        ..Group::PLAIN
    }
}

const READ_GROUP: Group = lines_of_device("read", &["device", "data_type"], "io_done", "read");
const WRITTEN_GROUP: Group = lines_of_device("written", &["device", "data_type"], "io_done", "write");
const DEVICE_ERROR_GROUP: Group =
    lines_of_device("device_error", &["device", "type"], "io_errors", "IO errors since filesystem creation");

#[rustfmt::skip]
static FILE_SYSTEM: [Entry; 2] = [
    gauge("bcachefs.mounted", "btree_cache_size", Unit::Count, "1 for each file system that is mounted.")
        .form(Form::One).at_most(1).every(SURVEY_PERIOD).exposed("node_bcachefs_info", &[]),
    gauge("bcachefs.tree_memory", "btree_cache_size", Unit::Bytes, "Memory that nodes of the trees take.")
        .form(Form::Rounded).every(SURVEY_PERIOD).exposed("node_bcachefs_btree_cache_size_bytes", &[]),
];

static ERROR: [Entry; 1] = [counter(
    "bcachefs.errors",
    "errors: # 1 of 1",
    Unit::Count,
    "Errors of this kind that were found in the file system.",
)
.every(SURVEY_PERIOD)
.exposed("node_bcachefs_errors_total", &[])];

#[rustfmt::skip]
static ALGORITHM: [Entry; 2] = [
    gauge("bcachefs.compressed", "compression_stats: # 1 of 2", Unit::Bytes, "What data takes that is compressed in this way.")
        .form(Form::Rounded).every(SURVEY_PERIOD).exposed("node_bcachefs_compression_compressed_bytes", &[]),
    gauge("bcachefs.uncompressed", "compression_stats: # 2 of 2", Unit::Bytes, "What the same data would take uncompressed.")
        .form(Form::Rounded).every(SURVEY_PERIOD).exposed("node_bcachefs_compression_uncompressed_bytes", &[]),
];

#[rustfmt::skip]
static WRITE: [Entry; 2] = [
    counter("bcachefs.tree_writes", "btree_write_stats: # 1 of 2", Unit::Count, "Writes of nodes of the trees for this reason.")
        .every(SURVEY_PERIOD).exposed("node_bcachefs_btree_writes_total", &[]),
    gauge("bcachefs.tree_write_size", "btree_write_stats: # 2 of 2", Unit::Bytes, "Size of such a write, on average.")
        .form(Form::Rounded).every(SURVEY_PERIOD).exposed("node_bcachefs_btree_write_average_size_bytes", &[]),
];

#[rustfmt::skip]
static DEVICE: [Entry; 4] = [
    info("bcachefs.device", "label, state", "node_bcachefs_device_info", "Label of a device, and its possible states with the present one in brackets.")
        .every(SURVEY_PERIOD),
    gauge("bcachefs.bucket_size", "bucket_size", Unit::Bytes, "Size of a bucket: the device allocates as much at once.")
        .form(Form::Rounded).every(SURVEY_PERIOD).exposed("node_bcachefs_device_bucket_size_bytes", &[]),
    gauge("bcachefs.buckets", "nbuckets", Unit::Count, "Buckets of the device.")
        .every(SURVEY_PERIOD).exposed("node_bcachefs_device_buckets", &[]),
    gauge("bcachefs.durability", "durability", Unit::Count, "As how many copies one on this device counts.")
        .every(SURVEY_PERIOD).exposed("node_bcachefs_device_durability", &[]),
];

static READ: [Entry; 1] = [counter(
    "bcachefs.read",
    "io_done: # 1 of 1 under read",
    Unit::Bytes,
    "Bytes of this kind that were read.",
)
.every(SURVEY_PERIOD)
.exposed("node_bcachefs_device_io_done_bytes_total", &[("operation", "read")])
.together(DONE)];

static WRITTEN: [Entry; 1] = [counter(
    "bcachefs.written",
    "io_done: # 1 of 1 under write",
    Unit::Bytes,
    "Bytes of this kind that were written.",
)
.every(SURVEY_PERIOD)
.exposed("node_bcachefs_device_io_done_bytes_total", &[("operation", "write")])
.together(DONE)];

const DONE: &str = "Bytes that a device has read and written.";

static DEVICE_ERROR: [Entry; 1] = [counter(
    "bcachefs.device_errors",
    "io_errors: # 1 of 1 under IO errors since filesystem creation",
    Unit::Count,
    "Failed reads, writes and checksums of a device.",
)
.every(SURVEY_PERIOD)
.exposed("node_bcachefs_device_io_errors_total", &[])];

/// A row for each counter of a file system: its unit and the kernel's name. Only the kernel's source shows what a name means.
macro_rules! counters {
    ($($unit:ident $name:literal;)*) => {
        [$(counter(
            concat!("bcachefs.", $name),
            concat!("counters/", $name, ": since filesystem creation 1 of 1"),
            Unit::$unit,
            concat!("The kernel's counter ", $name, ", since the file system was made."),
        )
        .form(Form::Rounded)
        .every(SURVEY_PERIOD)
        .exposed(concat!("node_bcachefs_", $name, "_total"), &[])),*]
    };
}

static COUNTERS: [Entry; 130] = counters! {
    Count "accounting_key_to_wb_slowpath";
    Count "bkey_pack_pos_fail";
    Count "btree_cache_cannibalize";
    Count "btree_cache_cannibalize_lock";
    Count "btree_cache_cannibalize_lock_fail";
    Count "btree_cache_cannibalize_unlock";
    Count "btree_cache_reap";
    Count "btree_cache_scan";
    Count "btree_key_cache_fill";
    Count "btree_node_alloc";
    Count "btree_node_compact";
    Count "btree_node_free";
    Count "btree_node_merge";
    Count "btree_node_merge_attempt";
    Count "btree_node_read";
    Count "btree_node_rewrite";
    Count "btree_node_set_root";
    Count "btree_node_split";
    Count "btree_node_write";
    Count "btree_path_relock_fail";
    Count "btree_path_upgrade_fail";
    Count "btree_reserve_get_fail";
    Count "bucket_alloc";
    Count "bucket_alloc_fail";
    Count "bucket_alloc_from_stripe";
    Count "bucket_discard";
    Count "bucket_discard_fast";
    Count "bucket_discard_fast_worker";
    Count "bucket_discard_worker";
    Count "bucket_invalidate";
    Bytes "cached_ptr_drop";
    Count "copygc";
    Count "copygc_wait_obsolete";
    Bytes "data_read";
    Count "data_read_bounce";
    Count "data_read_fail_and_poison";
    Bytes "data_read_hole";
    Bytes "data_read_inline";
    Count "data_read_narrow_crcs";
    Count "data_read_narrow_crcs_fail";
    Count "data_read_nopromote";
    Count "data_read_nopromote_already_promoted";
    Count "data_read_nopromote_congested";
    Count "data_read_nopromote_may_not";
    Count "data_read_nopromote_unwritten";
    Bytes "data_read_promote";
    Count "data_read_retry";
    Count "data_read_reuse_race";
    Count "data_read_split";
    Bytes "data_update";
    Bytes "data_update_fail";
    Count "data_update_in_flight";
    Bytes "data_update_key";
    Bytes "data_update_key_fail";
    Bytes "data_update_no_io";
    Count "data_update_noop_obsolete";
    Bytes "data_update_pred";
    Bytes "data_update_read";
    Count "data_update_start_fail_obsolete";
    Bytes "data_update_useless_write_fail";
    Bytes "data_update_write";
    Bytes "data_write";
    Count "error_throw";
    Count "evacuate_bucket";
    Count "fsync";
    Count "gc_gens_end";
    Count "gc_gens_start";
    Count "journal_full";
    Count "journal_reclaim_finish";
    Count "journal_reclaim_start";
    Count "journal_res_get_blocked";
    Count "journal_write";
    Count "open_bucket_alloc_fail";
    Bytes "reconcile_btree";
    Count "reconcile_clear_scan";
    Bytes "reconcile_data";
    Bytes "reconcile_phys";
    Bytes "reconcile_scan_device";
    Bytes "reconcile_scan_fs";
    Bytes "reconcile_scan_inum";
    Bytes "reconcile_scan_metadata";
    Bytes "reconcile_scan_pending";
    Bytes "reconcile_set_pending";
    Bytes "sectors_alloc";
    Count "stripe_alloc";
    Count "stripe_create";
    Count "stripe_create_fail";
    Count "stripe_delete";
    Count "stripe_reuse";
    Count "stripe_update_bucket";
    Count "stripe_update_extent";
    Count "stripe_update_extent_fail";
    Count "sync_fs";
    Count "trans_blocked_journal_reclaim";
    Count "trans_restart_btree_node_reused";
    Count "trans_restart_btree_node_split";
    Count "trans_restart_fault_inject";
    Count "trans_restart_injected";
    Count "trans_restart_iter_upgrade";
    Count "trans_restart_journal_preres_get";
    Count "trans_restart_journal_reclaim";
    Count "trans_restart_journal_res_get";
    Count "trans_restart_key_cache_key_realloced";
    Count "trans_restart_key_cache_raced";
    Count "trans_restart_key_cache_upgrade";
    Count "trans_restart_mark_replicas";
    Count "trans_restart_mem_realloced";
    Count "trans_restart_memory_allocation_failure";
    Count "trans_restart_relock";
    Count "trans_restart_relock_after_fill";
    Count "trans_restart_relock_key_cache_fill_obsolete";
    Count "trans_restart_relock_next_node";
    Count "trans_restart_relock_parent_for_fill_obsolete";
    Count "trans_restart_relock_path";
    Count "trans_restart_relock_path_intent";
    Count "trans_restart_split_race";
    Count "trans_restart_too_many_iters";
    Count "trans_restart_traverse";
    Count "trans_restart_upgrade";
    Count "trans_restart_would_deadlock";
    Count "trans_restart_would_deadlock_recursion_limit";
    Count "trans_restart_would_deadlock_write";
    Count "trans_restart_write_buffer_flush";
    Count "trans_traverse_all";
    Count "transaction_commit";
    Count "write_buffer_flush";
    Count "write_buffer_flush_slowpath";
    Count "write_buffer_flush_sync";
    Count "write_buffer_maybe_flush";
    Count "write_super";
};
