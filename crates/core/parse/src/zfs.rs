//! `/proc/spl/kstat/zfs`: what ZFS counts: its caches (ARC), transactions, intent log, and each pool and dataset. The folder exists
//! only while the module is loaded. A file has two header lines, then a line for each number: name, type, value. The numbers depend
//! on the version of ZFS: khz knows the numbers in node_exporter's fixtures, and for the cache (`arcstats`) also the numbers of
//! OpenZFS 2.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "zfs",
    path: "proc/spl/kstat/zfs",
    pieces: Pieces::Survey { subject: Subject::Tree("zfs"), captured: "survey/zfs" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; STATE.len() + POOL.len() + DATASET.len() + COUNTS.len()] = Group::join(&[
    &POOL_GROUP.each(&STATE),
    &POOL_GROUP.each(&POOL),
    &DATASET_GROUP.each(&DATASET),
    &WHOLE.each(&COUNTS),
]);

const WHOLE: Group =
    Group { branch: Some(Branch { folders: "proc/spl/kstat/zfs", ..Branch::PLAIN }), ..Group::PLAIN };

const POOL_GROUP: Group = Group {
    label: "zpool",
    kind: "pool",
    branch: Some(Branch { folders: "proc/spl/kstat/zfs/*", name: &[Part::Captured(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

const DATASET_GROUP: Group = Group {
    label: "zpool",
    kind: "dataset",
    instance_labels: &["dataset"],
    branch: Some(Branch {
        folders: "proc/spl/kstat/zfs/*",
        name: &[Part::Captured(0), Part::Line("objset-#", "dataset_name", 1)],
        words: Words::Files("objset-*"),
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// A state of a pool.
const fn state(
    name: &'static str,
    word: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    gauge(name, "state", Unit::Count, help)
        .form(Form::Is(word))
        .at_most(1)
        .every(SURVEY_PERIOD)
        .exposed("node_zfs_zpool_state", labels)
        .together("1 if the pool is in this state.")
}

/// A row for each state.
macro_rules! states {
    ($($word:literal, $help:literal;)*) => {
        [$(state(concat!("zfs.pool_", $word), $word, &[("state", $word)], $help)),*]
    };
}

static STATE: [Entry; 7] = states! {
    "online", "1 if the pool is as it should be.";
    "degraded", "1 if the pool works, but a device has failed.";
    "faulted", "1 if the pool cannot be used.";
    "offline", "1 if the pool was switched off.";
    "removed", "1 if the pool's devices were removed.";
    "unavail", "1 if the pool's devices cannot be opened.";
    "suspended", "1 if the pool waits, because of errors.";
};

/// A number as node_exporter shows it.
const fn of(entry: Entry, family: &'static str) -> Entry {
    entry.every(SURVEY_PERIOD).untyped(1).exposed(family, &[])
}

/// A row for each number: its kind, the end of its name, its file, its name in the file, the end of node_exporter's
/// name.
macro_rules! counts {
    ($($kind:ident, $name:literal, $file:literal, $key:literal, $family:literal;)*) => {
        [$(of(
            $kind(
                concat!("zfs.", $name),
                concat!($file, ": ", $key, " 2 of 2"),
                concat!("`", $key, "` of ZFS' file ", $file, "."),
            ),
            concat!("node_zfs_", $family),
        )),*]
    };
}

type Text = &'static str;

const fn count(name: Text, field: Text, help: Text) -> Entry {
    counter(name, field, Unit::Count, help)
}

const fn counted_bytes(name: Text, field: Text, help: Text) -> Entry {
    counter(name, field, Unit::Bytes, help)
}

const fn now(name: Text, field: Text, help: Text) -> Entry {
    gauge(name, field, Unit::Count, help)
}

const fn bytes(name: Text, field: Text, help: Text) -> Entry {
    gauge(name, field, Unit::Bytes, help)
}

/// The memory that the system can spare may be below zero.
const fn spare_bytes(name: Text, field: Text, help: Text) -> Entry {
    gauge(name, field, Unit::Bytes, help).signed()
}

#[rustfmt::skip]
static POOL: [Entry; 12] = [
    of(counted_bytes("zfs.pool_read_bytes", "io: nread 1 of 12 below", "Bytes read from the pool."), "node_zfs_zpool_nread"),
    of(counted_bytes("zfs.pool_written_bytes", "io: nread 2 of 12 below", "Bytes written to the pool."), "node_zfs_zpool_nwritten"),
    of(count("zfs.pool_reads", "io: nread 3 of 12 below", "Reads from the pool."), "node_zfs_zpool_reads"),
    of(count("zfs.pool_writes", "io: nread 4 of 12 below", "Writes to the pool."), "node_zfs_zpool_writes"),
    of(count("zfs.pool_wait_ns", "io: nread 5 of 12 below", "Nanoseconds in which requests waited."), "node_zfs_zpool_wtime"),
    of(count("zfs.pool_wait_length_ns", "io: nread 6 of 12 below", "Nanoseconds that all requests waited together."), "node_zfs_zpool_wlentime"),
    of(now("zfs.pool_wait_updated_ns", "io: nread 7 of 12 below", "When the queue of waiting requests last changed, in nanoseconds since boot."), "node_zfs_zpool_wupdate"),
    of(count("zfs.pool_run_ns", "io: nread 8 of 12 below", "Nanoseconds in which requests were under way."), "node_zfs_zpool_rtime"),
    of(count("zfs.pool_run_length_ns", "io: nread 9 of 12 below", "Nanoseconds that all requests were under way together."), "node_zfs_zpool_rlentime"),
    of(now("zfs.pool_run_updated_ns", "io: nread 10 of 12 below", "When the requests under way last changed, in nanoseconds since boot."), "node_zfs_zpool_rupdate"),
    of(now("zfs.pool_waiting", "io: nread 11 of 12 below", "Requests that wait."), "node_zfs_zpool_wcnt"),
    of(now("zfs.pool_running", "io: nread 12 of 12 below", "Requests that are under way."), "node_zfs_zpool_rcnt"),
];

#[rustfmt::skip]
static DATASET: [Entry; 6] = [
    of(count("zfs.dataset_writes", "objset-#: writes 2 of 2", "Writes to the dataset."), "node_zfs_zpool_dataset_writes"),
    of(counted_bytes("zfs.dataset_written_bytes", "objset-#: nwritten 2 of 2", "Bytes written to the dataset."), "node_zfs_zpool_dataset_nwritten"),
    of(count("zfs.dataset_reads", "objset-#: reads 2 of 2", "Reads from the dataset."), "node_zfs_zpool_dataset_reads"),
    of(counted_bytes("zfs.dataset_read_bytes", "objset-#: nread 2 of 2", "Bytes read from the dataset."), "node_zfs_zpool_dataset_nread"),
    of(count("zfs.dataset_unlinks", "objset-#: nunlinks 2 of 2", "Files that were to be deleted from the dataset."), "node_zfs_zpool_dataset_nunlinks"),
    of(count("zfs.dataset_unlinked", "objset-#: nunlinked 2 of 2", "Files that were deleted from the dataset."), "node_zfs_zpool_dataset_nunlinked"),
];

static COUNTS: [Entry; 326] = counts! {
    bytes, "abd_struct_size", "abdstats", "struct_size", "abd_struct_size";
    now, "abd_linear_cnt", "abdstats", "linear_cnt", "abd_linear_cnt";
    bytes, "abd_linear_data_size", "abdstats", "linear_data_size", "abd_linear_data_size";
    now, "abd_scatter_cnt", "abdstats", "scatter_cnt", "abd_scatter_cnt";
    bytes, "abd_scatter_data_size", "abdstats", "scatter_data_size", "abd_scatter_data_size";
    bytes, "abd_scatter_chunk_waste", "abdstats", "scatter_chunk_waste", "abd_scatter_chunk_waste";
    now, "abd_scatter_order_0", "abdstats", "scatter_order_0", "abd_scatter_order_0";
    now, "abd_scatter_order_1", "abdstats", "scatter_order_1", "abd_scatter_order_1";
    now, "abd_scatter_order_2", "abdstats", "scatter_order_2", "abd_scatter_order_2";
    now, "abd_scatter_order_3", "abdstats", "scatter_order_3", "abd_scatter_order_3";
    now, "abd_scatter_order_4", "abdstats", "scatter_order_4", "abd_scatter_order_4";
    now, "abd_scatter_order_5", "abdstats", "scatter_order_5", "abd_scatter_order_5";
    now, "abd_scatter_order_6", "abdstats", "scatter_order_6", "abd_scatter_order_6";
    now, "abd_scatter_order_7", "abdstats", "scatter_order_7", "abd_scatter_order_7";
    now, "abd_scatter_order_8", "abdstats", "scatter_order_8", "abd_scatter_order_8";
    now, "abd_scatter_order_9", "abdstats", "scatter_order_9", "abd_scatter_order_9";
    now, "abd_scatter_order_10", "abdstats", "scatter_order_10", "abd_scatter_order_10";
    count, "abd_scatter_page_multi_chunk", "abdstats", "scatter_page_multi_chunk", "abd_scatter_page_multi_chunk";
    count, "abd_scatter_page_multi_zone", "abdstats", "scatter_page_multi_zone", "abd_scatter_page_multi_zone";
    count, "abd_scatter_page_alloc_retry", "abdstats", "scatter_page_alloc_retry", "abd_scatter_page_alloc_retry";
    count, "abd_scatter_sg_table_retry", "abdstats", "scatter_sg_table_retry", "abd_scatter_sg_table_retry";
    bytes, "arc_anon_evictable_data", "arcstats", "anon_evictable_data", "arc_anon_evictable_data";
    bytes, "arc_anon_evictable_metadata", "arcstats", "anon_evictable_metadata", "arc_anon_evictable_metadata";
    bytes, "arc_anon_size", "arcstats", "anon_size", "arc_anon_size";
    bytes, "arc_loaned_bytes", "arcstats", "arc_loaned_bytes", "arc_arc_loaned_bytes";
    bytes, "arc_meta_limit", "arcstats", "arc_meta_limit", "arc_arc_meta_limit";
    bytes, "arc_meta_max", "arcstats", "arc_meta_max", "arc_arc_meta_max";
    bytes, "arc_meta_min", "arcstats", "arc_meta_min", "arc_arc_meta_min";
    bytes, "arc_meta_used", "arcstats", "arc_meta_used", "arc_arc_meta_used";
    bytes, "arc_need_free", "arcstats", "arc_need_free", "arc_arc_need_free";
    now, "arc_no_grow", "arcstats", "arc_no_grow", "arc_arc_no_grow";
    count, "arc_prune", "arcstats", "arc_prune", "arc_arc_prune";
    bytes, "arc_sys_free", "arcstats", "arc_sys_free", "arc_arc_sys_free";
    bytes, "arc_tempreserve", "arcstats", "arc_tempreserve", "arc_arc_tempreserve";
    bytes, "arc_c", "arcstats", "c", "arc_c";
    bytes, "arc_c_max", "arcstats", "c_max", "arc_c_max";
    bytes, "arc_c_min", "arcstats", "c_min", "arc_c_min";
    bytes, "arc_data_size", "arcstats", "data_size", "arc_data_size";
    count, "arc_deleted", "arcstats", "deleted", "arc_deleted";
    count, "arc_demand_data_hits", "arcstats", "demand_data_hits", "arc_demand_data_hits";
    count, "arc_demand_data_misses", "arcstats", "demand_data_misses", "arc_demand_data_misses";
    count, "arc_demand_metadata_hits", "arcstats", "demand_metadata_hits", "arc_demand_metadata_hits";
    count, "arc_demand_metadata_misses", "arcstats", "demand_metadata_misses", "arc_demand_metadata_misses";
    now, "arc_duplicate_buffers", "arcstats", "duplicate_buffers", "arc_duplicate_buffers";
    bytes, "arc_duplicate_buffers_size", "arcstats", "duplicate_buffers_size", "arc_duplicate_buffers_size";
    count, "arc_duplicate_reads", "arcstats", "duplicate_reads", "arc_duplicate_reads";
    counted_bytes, "arc_evict_l2_cached", "arcstats", "evict_l2_cached", "arc_evict_l2_cached";
    counted_bytes, "arc_evict_l2_eligible", "arcstats", "evict_l2_eligible", "arc_evict_l2_eligible";
    counted_bytes, "arc_evict_l2_ineligible", "arcstats", "evict_l2_ineligible", "arc_evict_l2_ineligible";
    count, "arc_evict_l2_skip", "arcstats", "evict_l2_skip", "arc_evict_l2_skip";
    count, "arc_evict_not_enough", "arcstats", "evict_not_enough", "arc_evict_not_enough";
    count, "arc_evict_skip", "arcstats", "evict_skip", "arc_evict_skip";
    now, "arc_hash_chain_max", "arcstats", "hash_chain_max", "arc_hash_chain_max";
    now, "arc_hash_chains", "arcstats", "hash_chains", "arc_hash_chains";
    count, "arc_hash_collisions", "arcstats", "hash_collisions", "arc_hash_collisions";
    now, "arc_hash_elements", "arcstats", "hash_elements", "arc_hash_elements";
    now, "arc_hash_elements_max", "arcstats", "hash_elements_max", "arc_hash_elements_max";
    bytes, "arc_hdr_size", "arcstats", "hdr_size", "arc_hdr_size";
    count, "arc_hits", "arcstats", "hits", "arc_hits";
    count, "arc_l2_abort_lowmem", "arcstats", "l2_abort_lowmem", "arc_l2_abort_lowmem";
    bytes, "arc_l2_asize", "arcstats", "l2_asize", "arc_l2_asize";
    count, "arc_l2_cdata_free_on_write", "arcstats", "l2_cdata_free_on_write", "arc_l2_cdata_free_on_write";
    count, "arc_l2_cksum_bad", "arcstats", "l2_cksum_bad", "arc_l2_cksum_bad";
    count, "arc_l2_compress_failures", "arcstats", "l2_compress_failures", "arc_l2_compress_failures";
    count, "arc_l2_compress_successes", "arcstats", "l2_compress_successes", "arc_l2_compress_successes";
    count, "arc_l2_compress_zeros", "arcstats", "l2_compress_zeros", "arc_l2_compress_zeros";
    count, "arc_l2_evict_l1cached", "arcstats", "l2_evict_l1cached", "arc_l2_evict_l1cached";
    count, "arc_l2_evict_lock_retry", "arcstats", "l2_evict_lock_retry", "arc_l2_evict_lock_retry";
    count, "arc_l2_evict_reading", "arcstats", "l2_evict_reading", "arc_l2_evict_reading";
    count, "arc_l2_feeds", "arcstats", "l2_feeds", "arc_l2_feeds";
    count, "arc_l2_free_on_write", "arcstats", "l2_free_on_write", "arc_l2_free_on_write";
    bytes, "arc_l2_hdr_size", "arcstats", "l2_hdr_size", "arc_l2_hdr_size";
    count, "arc_l2_hits", "arcstats", "l2_hits", "arc_l2_hits";
    count, "arc_l2_io_error", "arcstats", "l2_io_error", "arc_l2_io_error";
    count, "arc_l2_misses", "arcstats", "l2_misses", "arc_l2_misses";
    counted_bytes, "arc_l2_read_bytes", "arcstats", "l2_read_bytes", "arc_l2_read_bytes";
    count, "arc_l2_rw_clash", "arcstats", "l2_rw_clash", "arc_l2_rw_clash";
    bytes, "arc_l2_size", "arcstats", "l2_size", "arc_l2_size";
    counted_bytes, "arc_l2_write_bytes", "arcstats", "l2_write_bytes", "arc_l2_write_bytes";
    count, "arc_l2_writes_done", "arcstats", "l2_writes_done", "arc_l2_writes_done";
    count, "arc_l2_writes_error", "arcstats", "l2_writes_error", "arc_l2_writes_error";
    count, "arc_l2_writes_lock_retry", "arcstats", "l2_writes_lock_retry", "arc_l2_writes_lock_retry";
    count, "arc_l2_writes_sent", "arcstats", "l2_writes_sent", "arc_l2_writes_sent";
    spare_bytes, "arc_memory_available_bytes", "arcstats", "memory_available_bytes", "arc_memory_available_bytes";
    count, "arc_memory_direct_count", "arcstats", "memory_direct_count", "arc_memory_direct_count";
    count, "arc_memory_indirect_count", "arcstats", "memory_indirect_count", "arc_memory_indirect_count";
    count, "arc_memory_throttle_count", "arcstats", "memory_throttle_count", "arc_memory_throttle_count";
    bytes, "arc_metadata_size", "arcstats", "metadata_size", "arc_metadata_size";
    bytes, "arc_mfu_evictable_data", "arcstats", "mfu_evictable_data", "arc_mfu_evictable_data";
    bytes, "arc_mfu_evictable_metadata", "arcstats", "mfu_evictable_metadata", "arc_mfu_evictable_metadata";
    bytes, "arc_mfu_ghost_evictable_data", "arcstats", "mfu_ghost_evictable_data", "arc_mfu_ghost_evictable_data";
    bytes, "arc_mfu_ghost_evictable_metadata", "arcstats", "mfu_ghost_evictable_metadata", "arc_mfu_ghost_evictable_metadata";
    count, "arc_mfu_ghost_hits", "arcstats", "mfu_ghost_hits", "arc_mfu_ghost_hits";
    bytes, "arc_mfu_ghost_size", "arcstats", "mfu_ghost_size", "arc_mfu_ghost_size";
    count, "arc_mfu_hits", "arcstats", "mfu_hits", "arc_mfu_hits";
    bytes, "arc_mfu_size", "arcstats", "mfu_size", "arc_mfu_size";
    count, "arc_misses", "arcstats", "misses", "arc_misses";
    bytes, "arc_mru_evictable_data", "arcstats", "mru_evictable_data", "arc_mru_evictable_data";
    bytes, "arc_mru_evictable_metadata", "arcstats", "mru_evictable_metadata", "arc_mru_evictable_metadata";
    bytes, "arc_mru_ghost_evictable_data", "arcstats", "mru_ghost_evictable_data", "arc_mru_ghost_evictable_data";
    bytes, "arc_mru_ghost_evictable_metadata", "arcstats", "mru_ghost_evictable_metadata", "arc_mru_ghost_evictable_metadata";
    count, "arc_mru_ghost_hits", "arcstats", "mru_ghost_hits", "arc_mru_ghost_hits";
    bytes, "arc_mru_ghost_size", "arcstats", "mru_ghost_size", "arc_mru_ghost_size";
    count, "arc_mru_hits", "arcstats", "mru_hits", "arc_mru_hits";
    bytes, "arc_mru_size", "arcstats", "mru_size", "arc_mru_size";
    count, "arc_mutex_miss", "arcstats", "mutex_miss", "arc_mutex_miss";
    bytes, "arc_other_size", "arcstats", "other_size", "arc_other_size";
    bytes, "arc_p", "arcstats", "p", "arc_p";
    count, "arc_prefetch_data_hits", "arcstats", "prefetch_data_hits", "arc_prefetch_data_hits";
    count, "arc_prefetch_data_misses", "arcstats", "prefetch_data_misses", "arc_prefetch_data_misses";
    count, "arc_prefetch_metadata_hits", "arcstats", "prefetch_metadata_hits", "arc_prefetch_metadata_hits";
    count, "arc_prefetch_metadata_misses", "arcstats", "prefetch_metadata_misses", "arc_prefetch_metadata_misses";
    bytes, "arc_size", "arcstats", "size", "arc_size";
    count, "arc_iohits", "arcstats", "iohits", "arc_iohits";
    count, "arc_demand_data_iohits", "arcstats", "demand_data_iohits", "arc_demand_data_iohits";
    count, "arc_demand_metadata_iohits", "arcstats", "demand_metadata_iohits", "arc_demand_metadata_iohits";
    count, "arc_prefetch_data_iohits", "arcstats", "prefetch_data_iohits", "arc_prefetch_data_iohits";
    count, "arc_prefetch_metadata_iohits", "arcstats", "prefetch_metadata_iohits", "arc_prefetch_metadata_iohits";
    count, "arc_uncached_hits", "arcstats", "uncached_hits", "arc_uncached_hits";
    count, "arc_access_skip", "arcstats", "access_skip", "arc_access_skip";
    counted_bytes, "arc_evict_l2_eligible_mfu", "arcstats", "evict_l2_eligible_mfu", "arc_evict_l2_eligible_mfu";
    counted_bytes, "arc_evict_l2_eligible_mru", "arcstats", "evict_l2_eligible_mru", "arc_evict_l2_eligible_mru";
    now, "arc_meta", "arcstats", "meta", "arc_meta";
    now, "arc_pd", "arcstats", "pd", "arc_pd";
    now, "arc_pm", "arcstats", "pm", "arc_pm";
    bytes, "arc_compressed_size", "arcstats", "compressed_size", "arc_compressed_size";
    bytes, "arc_uncompressed_size", "arcstats", "uncompressed_size", "arc_uncompressed_size";
    bytes, "arc_overhead_size", "arcstats", "overhead_size", "arc_overhead_size";
    bytes, "arc_dbuf_size", "arcstats", "dbuf_size", "arc_dbuf_size";
    bytes, "arc_dnode_size", "arcstats", "dnode_size", "arc_dnode_size";
    bytes, "arc_bonus_size", "arcstats", "bonus_size", "arc_bonus_size";
    bytes, "arc_anon_data", "arcstats", "anon_data", "arc_anon_data";
    bytes, "arc_anon_metadata", "arcstats", "anon_metadata", "arc_anon_metadata";
    bytes, "arc_mru_data", "arcstats", "mru_data", "arc_mru_data";
    bytes, "arc_mru_metadata", "arcstats", "mru_metadata", "arc_mru_metadata";
    bytes, "arc_mru_ghost_data", "arcstats", "mru_ghost_data", "arc_mru_ghost_data";
    bytes, "arc_mru_ghost_metadata", "arcstats", "mru_ghost_metadata", "arc_mru_ghost_metadata";
    bytes, "arc_mfu_data", "arcstats", "mfu_data", "arc_mfu_data";
    bytes, "arc_mfu_metadata", "arcstats", "mfu_metadata", "arc_mfu_metadata";
    bytes, "arc_mfu_ghost_data", "arcstats", "mfu_ghost_data", "arc_mfu_ghost_data";
    bytes, "arc_mfu_ghost_metadata", "arcstats", "mfu_ghost_metadata", "arc_mfu_ghost_metadata";
    bytes, "arc_uncached_size", "arcstats", "uncached_size", "arc_uncached_size";
    bytes, "arc_uncached_data", "arcstats", "uncached_data", "arc_uncached_data";
    bytes, "arc_uncached_metadata", "arcstats", "uncached_metadata", "arc_uncached_metadata";
    bytes, "arc_uncached_evictable_data", "arcstats", "uncached_evictable_data", "arc_uncached_evictable_data";
    bytes, "arc_uncached_evictable_metadata", "arcstats", "uncached_evictable_metadata", "arc_uncached_evictable_metadata";
    bytes, "arc_l2_prefetch_asize", "arcstats", "l2_prefetch_asize", "arc_l2_prefetch_asize";
    bytes, "arc_l2_mru_asize", "arcstats", "l2_mru_asize", "arc_l2_mru_asize";
    bytes, "arc_l2_mfu_asize", "arcstats", "l2_mfu_asize", "arc_l2_mfu_asize";
    bytes, "arc_l2_bufc_data_asize", "arcstats", "l2_bufc_data_asize", "arc_l2_bufc_data_asize";
    bytes, "arc_l2_bufc_metadata_asize", "arcstats", "l2_bufc_metadata_asize", "arc_l2_bufc_metadata_asize";
    count, "arc_l2_log_blk_writes", "arcstats", "l2_log_blk_writes", "arc_l2_log_blk_writes";
    bytes, "arc_l2_log_blk_avg_asize", "arcstats", "l2_log_blk_avg_asize", "arc_l2_log_blk_avg_asize";
    bytes, "arc_l2_log_blk_asize", "arcstats", "l2_log_blk_asize", "arc_l2_log_blk_asize";
    now, "arc_l2_log_blk_count", "arcstats", "l2_log_blk_count", "arc_l2_log_blk_count";
    now, "arc_l2_data_to_meta_ratio", "arcstats", "l2_data_to_meta_ratio", "arc_l2_data_to_meta_ratio";
    count, "arc_l2_rebuild_success", "arcstats", "l2_rebuild_success", "arc_l2_rebuild_success";
    count, "arc_l2_rebuild_unsupported", "arcstats", "l2_rebuild_unsupported", "arc_l2_rebuild_unsupported";
    count, "arc_l2_rebuild_io_errors", "arcstats", "l2_rebuild_io_errors", "arc_l2_rebuild_io_errors";
    count, "arc_l2_rebuild_dh_errors", "arcstats", "l2_rebuild_dh_errors", "arc_l2_rebuild_dh_errors";
    count, "arc_l2_rebuild_cksum_lb_errors", "arcstats", "l2_rebuild_cksum_lb_errors", "arc_l2_rebuild_cksum_lb_errors";
    count, "arc_l2_rebuild_lowmem", "arcstats", "l2_rebuild_lowmem", "arc_l2_rebuild_lowmem";
    counted_bytes, "arc_l2_rebuild_size", "arcstats", "l2_rebuild_size", "arc_l2_rebuild_size";
    counted_bytes, "arc_l2_rebuild_asize", "arcstats", "l2_rebuild_asize", "arc_l2_rebuild_asize";
    count, "arc_l2_rebuild_bufs", "arcstats", "l2_rebuild_bufs", "arc_l2_rebuild_bufs";
    count, "arc_l2_rebuild_bufs_precached", "arcstats", "l2_rebuild_bufs_precached", "arc_l2_rebuild_bufs_precached";
    count, "arc_l2_rebuild_log_blks", "arcstats", "l2_rebuild_log_blks", "arc_l2_rebuild_log_blks";
    bytes, "arc_memory_all_bytes", "arcstats", "memory_all_bytes", "arc_memory_all_bytes";
    bytes, "arc_memory_free_bytes", "arcstats", "memory_free_bytes", "arc_memory_free_bytes";
    bytes, "arc_dnode_limit", "arcstats", "arc_dnode_limit", "arc_arc_dnode_limit";
    count, "arc_async_upgrade_sync", "arcstats", "async_upgrade_sync", "arc_async_upgrade_sync";
    count, "arc_predictive_prefetch", "arcstats", "predictive_prefetch", "arc_predictive_prefetch";
    count, "arc_demand_hit_predictive_prefetch", "arcstats", "demand_hit_predictive_prefetch", "arc_demand_hit_predictive_prefetch";
    count, "arc_demand_iohit_predictive_prefetch", "arcstats", "demand_iohit_predictive_prefetch", "arc_demand_iohit_predictive_prefetch";
    count, "arc_prescient_prefetch", "arcstats", "prescient_prefetch", "arc_prescient_prefetch";
    count, "arc_demand_hit_prescient_prefetch", "arcstats", "demand_hit_prescient_prefetch", "arc_demand_hit_prescient_prefetch";
    count, "arc_demand_iohit_prescient_prefetch", "arcstats", "demand_iohit_prescient_prefetch", "arc_demand_iohit_prescient_prefetch";
    bytes, "arc_raw_size", "arcstats", "arc_raw_size", "arc_arc_raw_size";
    now, "arc_cached_only_in_progress", "arcstats", "cached_only_in_progress", "arc_cached_only_in_progress";
    bytes, "arc_abd_chunk_waste_size", "arcstats", "abd_chunk_waste_size", "arc_abd_chunk_waste_size";
    now, "dbuf_cache_count", "dbufstats", "dbuf_cache_count", "dbuf_dbuf_cache_count";
    bytes, "dbuf_cache_size", "dbufstats", "dbuf_cache_size", "dbuf_dbuf_cache_size";
    bytes, "dbuf_cache_size_max", "dbufstats", "dbuf_cache_size_max", "dbuf_dbuf_cache_size_max";
    bytes, "dbuf_cache_max_bytes", "dbufstats", "dbuf_cache_max_bytes", "dbuf_dbuf_cache_max_bytes";
    bytes, "dbuf_cache_lowater_bytes", "dbufstats", "dbuf_cache_lowater_bytes", "dbuf_dbuf_cache_lowater_bytes";
    bytes, "dbuf_cache_hiwater_bytes", "dbufstats", "dbuf_cache_hiwater_bytes", "dbuf_dbuf_cache_hiwater_bytes";
    count, "dbuf_cache_total_evicts", "dbufstats", "dbuf_cache_total_evicts", "dbuf_dbuf_cache_total_evicts";
    now, "dbuf_cache_level_0", "dbufstats", "dbuf_cache_level_0", "dbuf_dbuf_cache_level_0";
    now, "dbuf_cache_level_1", "dbufstats", "dbuf_cache_level_1", "dbuf_dbuf_cache_level_1";
    now, "dbuf_cache_level_2", "dbufstats", "dbuf_cache_level_2", "dbuf_dbuf_cache_level_2";
    now, "dbuf_cache_level_3", "dbufstats", "dbuf_cache_level_3", "dbuf_dbuf_cache_level_3";
    now, "dbuf_cache_level_4", "dbufstats", "dbuf_cache_level_4", "dbuf_dbuf_cache_level_4";
    now, "dbuf_cache_level_5", "dbufstats", "dbuf_cache_level_5", "dbuf_dbuf_cache_level_5";
    now, "dbuf_cache_level_6", "dbufstats", "dbuf_cache_level_6", "dbuf_dbuf_cache_level_6";
    now, "dbuf_cache_level_7", "dbufstats", "dbuf_cache_level_7", "dbuf_dbuf_cache_level_7";
    now, "dbuf_cache_level_8", "dbufstats", "dbuf_cache_level_8", "dbuf_dbuf_cache_level_8";
    now, "dbuf_cache_level_9", "dbufstats", "dbuf_cache_level_9", "dbuf_dbuf_cache_level_9";
    now, "dbuf_cache_level_10", "dbufstats", "dbuf_cache_level_10", "dbuf_dbuf_cache_level_10";
    now, "dbuf_cache_level_11", "dbufstats", "dbuf_cache_level_11", "dbuf_dbuf_cache_level_11";
    bytes, "dbuf_cache_level_0_bytes", "dbufstats", "dbuf_cache_level_0_bytes", "dbuf_dbuf_cache_level_0_bytes";
    bytes, "dbuf_cache_level_1_bytes", "dbufstats", "dbuf_cache_level_1_bytes", "dbuf_dbuf_cache_level_1_bytes";
    bytes, "dbuf_cache_level_2_bytes", "dbufstats", "dbuf_cache_level_2_bytes", "dbuf_dbuf_cache_level_2_bytes";
    bytes, "dbuf_cache_level_3_bytes", "dbufstats", "dbuf_cache_level_3_bytes", "dbuf_dbuf_cache_level_3_bytes";
    bytes, "dbuf_cache_level_4_bytes", "dbufstats", "dbuf_cache_level_4_bytes", "dbuf_dbuf_cache_level_4_bytes";
    bytes, "dbuf_cache_level_5_bytes", "dbufstats", "dbuf_cache_level_5_bytes", "dbuf_dbuf_cache_level_5_bytes";
    bytes, "dbuf_cache_level_6_bytes", "dbufstats", "dbuf_cache_level_6_bytes", "dbuf_dbuf_cache_level_6_bytes";
    bytes, "dbuf_cache_level_7_bytes", "dbufstats", "dbuf_cache_level_7_bytes", "dbuf_dbuf_cache_level_7_bytes";
    bytes, "dbuf_cache_level_8_bytes", "dbufstats", "dbuf_cache_level_8_bytes", "dbuf_dbuf_cache_level_8_bytes";
    bytes, "dbuf_cache_level_9_bytes", "dbufstats", "dbuf_cache_level_9_bytes", "dbuf_dbuf_cache_level_9_bytes";
    bytes, "dbuf_cache_level_10_bytes", "dbufstats", "dbuf_cache_level_10_bytes", "dbuf_dbuf_cache_level_10_bytes";
    bytes, "dbuf_cache_level_11_bytes", "dbufstats", "dbuf_cache_level_11_bytes", "dbuf_dbuf_cache_level_11_bytes";
    count, "dbuf_hash_hits", "dbufstats", "hash_hits", "dbuf_hash_hits";
    count, "dbuf_hash_misses", "dbufstats", "hash_misses", "dbuf_hash_misses";
    count, "dbuf_hash_collisions", "dbufstats", "hash_collisions", "dbuf_hash_collisions";
    now, "dbuf_hash_elements", "dbufstats", "hash_elements", "dbuf_hash_elements";
    now, "dbuf_hash_elements_max", "dbufstats", "hash_elements_max", "dbuf_hash_elements_max";
    now, "dbuf_hash_chains", "dbufstats", "hash_chains", "dbuf_hash_chains";
    now, "dbuf_hash_chain_max", "dbufstats", "hash_chain_max", "dbuf_hash_chain_max";
    count, "dbuf_hash_insert_race", "dbufstats", "hash_insert_race", "dbuf_hash_insert_race";
    now, "dbuf_hash_dbuf_level_0", "dbufstats", "hash_dbuf_level_0", "dbuf_hash_dbuf_level_0";
    now, "dbuf_hash_dbuf_level_1", "dbufstats", "hash_dbuf_level_1", "dbuf_hash_dbuf_level_1";
    now, "dbuf_hash_dbuf_level_2", "dbufstats", "hash_dbuf_level_2", "dbuf_hash_dbuf_level_2";
    now, "dbuf_hash_dbuf_level_3", "dbufstats", "hash_dbuf_level_3", "dbuf_hash_dbuf_level_3";
    now, "dbuf_hash_dbuf_level_4", "dbufstats", "hash_dbuf_level_4", "dbuf_hash_dbuf_level_4";
    now, "dbuf_hash_dbuf_level_5", "dbufstats", "hash_dbuf_level_5", "dbuf_hash_dbuf_level_5";
    now, "dbuf_hash_dbuf_level_6", "dbufstats", "hash_dbuf_level_6", "dbuf_hash_dbuf_level_6";
    now, "dbuf_hash_dbuf_level_7", "dbufstats", "hash_dbuf_level_7", "dbuf_hash_dbuf_level_7";
    now, "dbuf_hash_dbuf_level_8", "dbufstats", "hash_dbuf_level_8", "dbuf_hash_dbuf_level_8";
    now, "dbuf_hash_dbuf_level_9", "dbufstats", "hash_dbuf_level_9", "dbuf_hash_dbuf_level_9";
    now, "dbuf_hash_dbuf_level_10", "dbufstats", "hash_dbuf_level_10", "dbuf_hash_dbuf_level_10";
    now, "dbuf_hash_dbuf_level_11", "dbufstats", "hash_dbuf_level_11", "dbuf_hash_dbuf_level_11";
    bytes, "dbuf_hash_dbuf_level_0_bytes", "dbufstats", "hash_dbuf_level_0_bytes", "dbuf_hash_dbuf_level_0_bytes";
    bytes, "dbuf_hash_dbuf_level_1_bytes", "dbufstats", "hash_dbuf_level_1_bytes", "dbuf_hash_dbuf_level_1_bytes";
    bytes, "dbuf_hash_dbuf_level_2_bytes", "dbufstats", "hash_dbuf_level_2_bytes", "dbuf_hash_dbuf_level_2_bytes";
    bytes, "dbuf_hash_dbuf_level_3_bytes", "dbufstats", "hash_dbuf_level_3_bytes", "dbuf_hash_dbuf_level_3_bytes";
    bytes, "dbuf_hash_dbuf_level_4_bytes", "dbufstats", "hash_dbuf_level_4_bytes", "dbuf_hash_dbuf_level_4_bytes";
    bytes, "dbuf_hash_dbuf_level_5_bytes", "dbufstats", "hash_dbuf_level_5_bytes", "dbuf_hash_dbuf_level_5_bytes";
    bytes, "dbuf_hash_dbuf_level_6_bytes", "dbufstats", "hash_dbuf_level_6_bytes", "dbuf_hash_dbuf_level_6_bytes";
    bytes, "dbuf_hash_dbuf_level_7_bytes", "dbufstats", "hash_dbuf_level_7_bytes", "dbuf_hash_dbuf_level_7_bytes";
    bytes, "dbuf_hash_dbuf_level_8_bytes", "dbufstats", "hash_dbuf_level_8_bytes", "dbuf_hash_dbuf_level_8_bytes";
    bytes, "dbuf_hash_dbuf_level_9_bytes", "dbufstats", "hash_dbuf_level_9_bytes", "dbuf_hash_dbuf_level_9_bytes";
    bytes, "dbuf_hash_dbuf_level_10_bytes", "dbufstats", "hash_dbuf_level_10_bytes", "dbuf_hash_dbuf_level_10_bytes";
    bytes, "dbuf_hash_dbuf_level_11_bytes", "dbufstats", "hash_dbuf_level_11_bytes", "dbuf_hash_dbuf_level_11_bytes";
    count, "dmu_tx_assigned", "dmu_tx", "dmu_tx_assigned", "dmu_tx_dmu_tx_assigned";
    count, "dmu_tx_delay", "dmu_tx", "dmu_tx_delay", "dmu_tx_dmu_tx_delay";
    count, "dmu_tx_error", "dmu_tx", "dmu_tx_error", "dmu_tx_dmu_tx_error";
    count, "dmu_tx_suspended", "dmu_tx", "dmu_tx_suspended", "dmu_tx_dmu_tx_suspended";
    count, "dmu_tx_group", "dmu_tx", "dmu_tx_group", "dmu_tx_dmu_tx_group";
    count, "dmu_tx_memory_reserve", "dmu_tx", "dmu_tx_memory_reserve", "dmu_tx_dmu_tx_memory_reserve";
    count, "dmu_tx_memory_reclaim", "dmu_tx", "dmu_tx_memory_reclaim", "dmu_tx_dmu_tx_memory_reclaim";
    count, "dmu_tx_dirty_throttle", "dmu_tx", "dmu_tx_dirty_throttle", "dmu_tx_dmu_tx_dirty_throttle";
    count, "dmu_tx_dirty_delay", "dmu_tx", "dmu_tx_dirty_delay", "dmu_tx_dmu_tx_dirty_delay";
    count, "dmu_tx_dirty_over_max", "dmu_tx", "dmu_tx_dirty_over_max", "dmu_tx_dmu_tx_dirty_over_max";
    count, "dmu_tx_quota", "dmu_tx", "dmu_tx_quota", "dmu_tx_dmu_tx_quota";
    count, "dnode_hold_dbuf_hold", "dnodestats", "dnode_hold_dbuf_hold", "dnode_dnode_hold_dbuf_hold";
    count, "dnode_hold_dbuf_read", "dnodestats", "dnode_hold_dbuf_read", "dnode_dnode_hold_dbuf_read";
    count, "dnode_hold_alloc_hits", "dnodestats", "dnode_hold_alloc_hits", "dnode_dnode_hold_alloc_hits";
    count, "dnode_hold_alloc_misses", "dnodestats", "dnode_hold_alloc_misses", "dnode_dnode_hold_alloc_misses";
    count, "dnode_hold_alloc_interior", "dnodestats", "dnode_hold_alloc_interior", "dnode_dnode_hold_alloc_interior";
    count, "dnode_hold_alloc_lock_retry", "dnodestats", "dnode_hold_alloc_lock_retry", "dnode_dnode_hold_alloc_lock_retry";
    count, "dnode_hold_alloc_lock_misses", "dnodestats", "dnode_hold_alloc_lock_misses", "dnode_dnode_hold_alloc_lock_misses";
    count, "dnode_hold_alloc_type_none", "dnodestats", "dnode_hold_alloc_type_none", "dnode_dnode_hold_alloc_type_none";
    count, "dnode_hold_free_hits", "dnodestats", "dnode_hold_free_hits", "dnode_dnode_hold_free_hits";
    count, "dnode_hold_free_misses", "dnodestats", "dnode_hold_free_misses", "dnode_dnode_hold_free_misses";
    count, "dnode_hold_free_lock_misses", "dnodestats", "dnode_hold_free_lock_misses", "dnode_dnode_hold_free_lock_misses";
    count, "dnode_hold_free_lock_retry", "dnodestats", "dnode_hold_free_lock_retry", "dnode_dnode_hold_free_lock_retry";
    count, "dnode_hold_free_overflow", "dnodestats", "dnode_hold_free_overflow", "dnode_dnode_hold_free_overflow";
    count, "dnode_hold_free_refcount", "dnodestats", "dnode_hold_free_refcount", "dnode_dnode_hold_free_refcount";
    count, "dnode_hold_free_txg", "dnodestats", "dnode_hold_free_txg", "dnode_dnode_hold_free_txg";
    count, "dnode_allocate", "dnodestats", "dnode_allocate", "dnode_dnode_allocate";
    count, "dnode_reallocate", "dnodestats", "dnode_reallocate", "dnode_dnode_reallocate";
    count, "dnode_buf_evict", "dnodestats", "dnode_buf_evict", "dnode_dnode_buf_evict";
    count, "dnode_alloc_next_chunk", "dnodestats", "dnode_alloc_next_chunk", "dnode_dnode_alloc_next_chunk";
    count, "dnode_alloc_race", "dnodestats", "dnode_alloc_race", "dnode_dnode_alloc_race";
    count, "dnode_alloc_next_block", "dnodestats", "dnode_alloc_next_block", "dnode_dnode_alloc_next_block";
    count, "dnode_move_invalid", "dnodestats", "dnode_move_invalid", "dnode_dnode_move_invalid";
    count, "dnode_move_recheck1", "dnodestats", "dnode_move_recheck1", "dnode_dnode_move_recheck1";
    count, "dnode_move_recheck2", "dnodestats", "dnode_move_recheck2", "dnode_dnode_move_recheck2";
    count, "dnode_move_special", "dnodestats", "dnode_move_special", "dnode_dnode_move_special";
    count, "dnode_move_handle", "dnodestats", "dnode_move_handle", "dnode_dnode_move_handle";
    count, "dnode_move_rwlock", "dnodestats", "dnode_move_rwlock", "dnode_dnode_move_rwlock";
    count, "dnode_move_active", "dnodestats", "dnode_move_active", "dnode_dnode_move_active";
    count, "fm_erpt_dropped", "fm", "erpt-dropped", "fm_erpt_dropped";
    count, "fm_erpt_set_failed", "fm", "erpt-set-failed", "fm_erpt_set_failed";
    count, "fm_fmri_set_failed", "fm", "fmri-set-failed", "fm_fmri_set_failed";
    count, "fm_payload_set_failed", "fm", "payload-set-failed", "fm_payload_set_failed";
    count, "vdev_cache_delegations", "vdev_cache_stats", "delegations", "vdev_cache_delegations";
    count, "vdev_cache_hits", "vdev_cache_stats", "hits", "vdev_cache_hits";
    count, "vdev_cache_misses", "vdev_cache_stats", "misses", "vdev_cache_misses";
    count, "vdev_mirror_rotating_linear", "vdev_mirror_stats", "rotating_linear", "vdev_mirror_rotating_linear";
    count, "vdev_mirror_rotating_offset", "vdev_mirror_stats", "rotating_offset", "vdev_mirror_rotating_offset";
    count, "vdev_mirror_rotating_seek", "vdev_mirror_stats", "rotating_seek", "vdev_mirror_rotating_seek";
    count, "vdev_mirror_non_rotating_linear", "vdev_mirror_stats", "non_rotating_linear", "vdev_mirror_non_rotating_linear";
    count, "vdev_mirror_non_rotating_seek", "vdev_mirror_stats", "non_rotating_seek", "vdev_mirror_non_rotating_seek";
    count, "vdev_mirror_preferred_found", "vdev_mirror_stats", "preferred_found", "vdev_mirror_preferred_found";
    count, "vdev_mirror_preferred_not_found", "vdev_mirror_stats", "preferred_not_found", "vdev_mirror_preferred_not_found";
    count, "xuio_onloan_read_buf", "xuio_stats", "onloan_read_buf", "xuio_onloan_read_buf";
    count, "xuio_onloan_write_buf", "xuio_stats", "onloan_write_buf", "xuio_onloan_write_buf";
    count, "xuio_read_buf_copied", "xuio_stats", "read_buf_copied", "xuio_read_buf_copied";
    count, "xuio_read_buf_nocopy", "xuio_stats", "read_buf_nocopy", "xuio_read_buf_nocopy";
    count, "xuio_write_buf_copied", "xuio_stats", "write_buf_copied", "xuio_write_buf_copied";
    count, "xuio_write_buf_nocopy", "xuio_stats", "write_buf_nocopy", "xuio_write_buf_nocopy";
    count, "zfetch_hits", "zfetchstats", "hits", "zfetch_hits";
    count, "zfetch_misses", "zfetchstats", "misses", "zfetch_misses";
    count, "zfetch_colinear_hits", "zfetchstats", "colinear_hits", "zfetch_colinear_hits";
    count, "zfetch_colinear_misses", "zfetchstats", "colinear_misses", "zfetch_colinear_misses";
    count, "zfetch_stride_hits", "zfetchstats", "stride_hits", "zfetch_stride_hits";
    count, "zfetch_stride_misses", "zfetchstats", "stride_misses", "zfetch_stride_misses";
    count, "zfetch_reclaim_successes", "zfetchstats", "reclaim_successes", "zfetch_reclaim_successes";
    count, "zfetch_reclaim_failures", "zfetchstats", "reclaim_failures", "zfetch_reclaim_failures";
    count, "zfetch_streams_resets", "zfetchstats", "streams_resets", "zfetch_streams_resets";
    count, "zfetch_streams_noresets", "zfetchstats", "streams_noresets", "zfetch_streams_noresets";
    count, "zfetch_bogus_streams", "zfetchstats", "bogus_streams", "zfetch_bogus_streams";
    count, "zil_commit_count", "zil", "zil_commit_count", "zil_zil_commit_count";
    count, "zil_commit_writer_count", "zil", "zil_commit_writer_count", "zil_zil_commit_writer_count";
    count, "zil_itx_count", "zil", "zil_itx_count", "zil_zil_itx_count";
    count, "zil_itx_indirect_count", "zil", "zil_itx_indirect_count", "zil_zil_itx_indirect_count";
    counted_bytes, "zil_itx_indirect_bytes", "zil", "zil_itx_indirect_bytes", "zil_zil_itx_indirect_bytes";
    count, "zil_itx_copied_count", "zil", "zil_itx_copied_count", "zil_zil_itx_copied_count";
    counted_bytes, "zil_itx_copied_bytes", "zil", "zil_itx_copied_bytes", "zil_zil_itx_copied_bytes";
    count, "zil_itx_needcopy_count", "zil", "zil_itx_needcopy_count", "zil_zil_itx_needcopy_count";
    counted_bytes, "zil_itx_needcopy_bytes", "zil", "zil_itx_needcopy_bytes", "zil_zil_itx_needcopy_bytes";
    count, "zil_itx_metaslab_normal_count", "zil", "zil_itx_metaslab_normal_count", "zil_zil_itx_metaslab_normal_count";
    counted_bytes, "zil_itx_metaslab_normal_bytes", "zil", "zil_itx_metaslab_normal_bytes", "zil_zil_itx_metaslab_normal_bytes";
    count, "zil_itx_metaslab_slog_count", "zil", "zil_itx_metaslab_slog_count", "zil_zil_itx_metaslab_slog_count";
    counted_bytes, "zil_itx_metaslab_slog_bytes", "zil", "zil_itx_metaslab_slog_bytes", "zil_zil_itx_metaslab_slog_bytes";
};
