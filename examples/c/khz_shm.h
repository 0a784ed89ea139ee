/* khz_shm.h: a node's latest numbers out of shared memory (docs/shm.md), without a
 * system call and without a library. C11, 64 bits. Nothing is written, nothing locked;
 * the agent does not notice.
 *
 *     khz_shm shm;
 *     if (khz_shm_open(&shm, "/dev/shm/khz/node1/snapshot")) perror("khz");
 *     int64_t slot = khz_shm_find(&shm, "mem.free");
 *     khz_value value;
 *     if (slot >= 0 && khz_shm_read(&shm, slot, &value) == KHZ_PRESENT)
 *         printf("%" PRIu64 " bytes free\n", value.number);
 */
#ifndef KHZ_SHM_H
#define KHZ_SHM_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "khz_shm.h is written for little-endian machines"
#endif

enum {
    KHZ_WORDS_AT = 4096,
    KHZ_GROUPS_AT = 8192,
    KHZ_SLOTS_AT = 12288,
    KHZ_NAMES_AT = 4206592,
    KHZ_FILE_BYTES = 20983808,
    KHZ_SLOTS_MAX = 262144,
    KHZ_NAMES_MAX = 16777216,
    KHZ_GROUPS_MAX = 64,
    KHZ_TRIES = 1000000,
};

/* What khz_shm_read answers: a state of the value, or that there is none to be had. */
enum {
    /* 1 to 127, except 65 and 66: absent (64, labels, stands in no snapshot); 128 to 255: it could not be read */
    KHZ_PRESENT = 0,    /* a whole number */
    KHZ_SIGNED = 65,    /* the number is an int64_t */
    KHZ_FLOAT = 66,     /* the number is the bits of a double */
    KHZ_NO_SLOT = -1,
    KHZ_UNSETTLED = -2, /* the writer has died within a row (open the file again), or never pauses */
};

typedef struct {
    const unsigned char *base;
} khz_shm;

typedef struct {
    uint64_t number;     /* the value without its point: 52 with 2 places is 0.52; read it as the state says */
    int places;
    uint64_t boot_ns;    /* when it was gathered: CLOCK_BOOTTIME of the node */
    int64_t real_offset; /* to be added for the time since 1970 */
} khz_value;

static inline uint64_t khz_load_(const khz_shm *shm, uint64_t at, memory_order order) {
    return atomic_load_explicit((const _Atomic uint64_t *)(const void *)(shm->base + at), order);
}

/* Maps the file; 0, or -1 with errno (EINVAL: it is no snapshot of version 1). */
static inline int khz_shm_open(khz_shm *shm, const char *path) {
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    if (fstat(file, &about) != 0 || about.st_size != KHZ_FILE_BYTES) {
        close(file);
        errno = EINVAL;
        return -1;
    }
    void *base = mmap(NULL, KHZ_FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (base == MAP_FAILED)
        return -1;
    shm->base = base;
    if (memcmp(base, "khzM\1", 5) != 0) {
        munmap(base, KHZ_FILE_BYTES);
        errno = EINVAL;
        return -1;
    }
    return 0;
}

static inline void khz_shm_close(khz_shm *shm) {
    munmap((void *)(uintptr_t)shm->base, KHZ_FILE_BYTES);
    shm->base = NULL;
}

/* How many slots there are; they only become more. */
static inline uint64_t khz_shm_slots(const khz_shm *shm) {
    uint64_t slots = khz_load_(shm, KHZ_WORDS_AT, memory_order_acquire);
    return slots < KHZ_SLOTS_MAX ? slots : KHZ_SLOTS_MAX;
}

/* True when the agent has ended; a new one makes a new file. */
static inline int khz_shm_ended(const khz_shm *shm) {
    return khz_load_(shm, KHZ_WORDS_AT + 16, memory_order_acquire) != 0;
}

/* The slot of this name ("net.rx_bytes[eth0]"), or -1. To be looked up once. */
static inline int64_t khz_shm_find(const khz_shm *shm, const char *name) {
    uint64_t slots = khz_shm_slots(shm), at = 0;
    uint64_t bytes = khz_load_(shm, KHZ_WORDS_AT + 8, memory_order_acquire);
    size_t wanted = strlen(name);
    if (bytes > KHZ_NAMES_MAX)
        bytes = KHZ_NAMES_MAX;
    for (uint64_t slot = 0; slot < slots && at + 8 <= bytes; slot++) {
        const unsigned char *entry = shm->base + KHZ_NAMES_AT + at;
        uint64_t length = entry[0] | (uint64_t)entry[1] << 8, unit = entry[5];
        uint64_t letters = entry[6] | (uint64_t)entry[7] << 8;
        if (length < 8 + unit + letters || at + length > bytes)
            return -1;
        if (letters == wanted && memcmp(entry + 8 + unit, name, wanted) == 0)
            return (int64_t)slot;
        at += length;
    }
    return -1;
}

/* A value of any type as the nearest double; state is what khz_shm_read answered. NaN: there is none. */
static inline double khz_shm_double(int state, const khz_value *value) {
    double number, step = 1;
    for (int i = 0; i < value->places; i++)
        step *= 10;
    switch (state) {
    case KHZ_PRESENT:
        return (double)value->number / step;
    case KHZ_SIGNED:
        return (double)(int64_t)value->number / step;
    case KHZ_FLOAT:
        memcpy(&number, &value->number, sizeof number);
        return number;
    default:
        memset(&number, 0xff, sizeof number);
        return number;
    }
}

/* The latest value of a slot; KHZ_PRESENT, KHZ_SIGNED or KHZ_FLOAT, or why there is none. */
static inline int khz_shm_read(const khz_shm *shm, int64_t slot, khz_value *value) {
    if (slot < 0 || (uint64_t)slot >= khz_shm_slots(shm))
        return KHZ_NO_SLOT;
    uint64_t at = KHZ_SLOTS_AT + 16 * (uint64_t)slot;
    uint64_t group = khz_load_(shm, at + 8, memory_order_relaxed) >> 8 & 255;
    if (group >= KHZ_GROUPS_MAX)
        return KHZ_NO_SLOT;
    uint64_t sequence = KHZ_GROUPS_AT + 64 * group;
    for (int tries = 0; tries < KHZ_TRIES; tries++) {
        uint64_t before = khz_load_(shm, sequence, memory_order_acquire);
        if (before % 2 == 0) {
            uint64_t number = khz_load_(shm, at, memory_order_relaxed);
            uint64_t meta = khz_load_(shm, at + 8, memory_order_relaxed);
            uint64_t boot = khz_load_(shm, sequence + 8, memory_order_relaxed);
            uint64_t real = khz_load_(shm, sequence + 16, memory_order_relaxed);
            atomic_thread_fence(memory_order_acquire);
            if (khz_load_(shm, sequence, memory_order_relaxed) == before) {
                value->number = number;
                value->places = (int)(meta >> 16 & 255);
                value->boot_ns = boot;
                value->real_offset = (int64_t)real;
                return (int)(meta & 255);
            }
        }
        if (tries > 1000)
            sched_yield();
    }
    return KHZ_UNSETTLED;
}

#endif
