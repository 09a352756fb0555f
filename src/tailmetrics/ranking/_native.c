/* The steps of a ranking on the CPU that read many numbers. Each function takes rows in blocks, over its own threads.

native.py calls them through ctypes, which releases Python's lock for the whole of a call. Nothing is kept from call to
call. A task holds addresses, sizes and row strides in elements, eight bytes each; the columns of a row are neighbours.
The threads are those of the system, POSIX or Windows, because an OpenMP run time beside that of torch could hang.

N is the number of rows, L of labels, K of places of a list, M of relevant labels of a row, T of relevant labels of all
rows, G of buckets, W of cells for the hits of a row.

Each exported function returns DONE, NO_MEMORY, or NO_SUCH_LABEL if an id lies outside of a table. Its task says what it
reads and what it writes. The lower part of this file is compiled for float and for double: the file includes itself. */
#ifndef REAL
#define _POSIX_C_SOURCE 200809L
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#define sched_yield SwitchToThread
#define HELPER DWORD WINAPI
#else
#include <pthread.h>
#include <sched.h>
#define HELPER void *
#endif

_Static_assert(sizeof(void *) == 8, "tasks come as words of 64 bits");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "masks are read as little-endian words");
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES /* elsewhere the code runs on the processors that the compiler aims at */
#endif
#define INLINE static inline __attribute__((always_inline)) /* so that each clone has its own copy */

enum { DONE, NO_MEMORY, NO_SUCH_LABEL }; /* return codes */
enum { HALF, BRAIN, SINGLE, DOUBLE };    /* types of scores */
static const int64_t NOT_RANKED = (int64_t)1 << 62;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- Rows over threads ---- */

#define MOST_THREADS 256
#ifndef BLOCK /* tests set both to small values */
#define WORTH_A_THREAD 200000 /* nanoseconds of work; to start and to end a thread takes 20,000 to 50,000 */
#define BLOCK 50000 /* nanoseconds of work in a block; no thread waits long for the last block of another */
#endif

/* Processes the rows from `first` to `end`; `memory` belongs to the calling thread. Returns a return code. */
typedef int ProcessRows(const void *task, int64_t first, int64_t end, char *memory);

typedef struct {
    ProcessRows *process_rows;
    const void *task;
    int64_t num_rows, block; /* a block has this many rows */
    size_t memory_size;      /* bytes that each thread needs beside its task, all 0 at first */
    atomic_llong next_row;
    atomic_llong active;  /* the number of threads that process a block */
    atomic_llong holders; /* the number of threads that may still read the job; the last one frees it */
    atomic_int code;
} Job;

/* End a job early: no thread takes another block. */
static void stop(Job *job, int code) {
    atomic_store(&job->code, code);
    atomic_store(&job->next_row, job->num_rows);
}

/* Process blocks of rows until none is left. Returns whether the thread got its memory; without it, it takes none. */
static bool process_blocks(Job *job) {
    char *memory = calloc(1, job->memory_size);
    if (!memory)
        return false;
    bool has_rows = true;
    while (has_rows) {
        atomic_fetch_add(&job->active, 1); /* before a block is taken, so that `run` waits for this thread */
        int64_t first = atomic_fetch_add(&job->next_row, job->block);
        has_rows = first < job->num_rows;
        if (has_rows) {
            int code = job->process_rows(job->task, first, smaller(first + job->block, job->num_rows), memory);
            if (code)
                stop(job, code);
        }
        atomic_fetch_sub(&job->active, 1);
    }
    free(memory);
    return true;
}

static void release(Job *job) {
    if (atomic_fetch_sub(&job->holders, 1) == 1)
        free(job);
}

static HELPER help(void *job) {
    process_blocks(job);
    release(job);
    return 0;
}

/* Start a thread that helps with a job; no thread joins it. Returns whether it was started. */
static bool start_thread(Job *job) {
#ifdef _WIN32
    HANDLE thread = CreateThread(NULL, 0, help, job, 0, NULL);
    if (thread)
        CloseHandle(thread);
    return thread != NULL;
#else
    pthread_t thread;
    bool is_started = !pthread_create(&thread, NULL, help, job);
    if (is_started)
        pthread_detach(thread);
    return is_started;
#endif
}

/* Process all rows of a task on up to `threads` threads, the calling one included, and return a return code.

   `cost` is the estimated time of a row in nanoseconds, by which the work is cut into blocks. The calling thread does
   not wait for a thread that a busy machine has not started yet: such a thread later finds no block, and reads only the
   job, never the task. */
static int run(
    ProcessRows *process_rows, const void *task, int64_t num_rows, size_t memory_size, double cost, int64_t threads) {
    double worth = cost * (double)num_rows / WORTH_A_THREAD;
    int64_t num_threads = larger(1, smaller(threads, (int64_t)(worth < MOST_THREADS ? worth : MOST_THREADS)));
    int64_t block = (int64_t)(BLOCK / cost) + 1;
    Job *job = malloc(sizeof *job);
    if (!job)
        return NO_MEMORY;
    *job = (Job){process_rows, task, num_rows, block, memory_size + 1, 0, 0, num_threads, DONE};

    for (int64_t helper = 1; helper < num_threads; helper++)
        if (!start_thread(job)) /* the threads that were started do all the work */
            atomic_fetch_sub(&job->holders, 1);
    if (!process_blocks(job))
        stop(job, NO_MEMORY);
    while (atomic_load(&job->active))
        sched_yield();

    int code = atomic_load(&job->code);
    release(job);
    return code;
}

/* Return the address of the next `count` elements in the memory of a thread, and add their size to `used`.

   Called with `memory` NULL to learn the size alone. Each part begins on a cache line. */
INLINE void *part_of(char *memory, size_t *used, int64_t count, size_t size) {
    char *part = memory ? memory + *used : NULL;
    *used += ((size_t)count * size + 63) / 64 * 64;
    return part;
}

/* Lower a number that all threads share to `value`, if it is higher. */
INLINE void lower(atomic_llong *lowest, int64_t value) {
    long long before = atomic_load(lowest);
    while (value < before && !atomic_compare_exchange_weak(lowest, &before, value)) {
    }
}

/* ---- Scores ---- */

#define RUN 64 /* this many labels are compared together, without a branch */
#define TILE 4096 /* this many scores, 16 or 32 KB, stay in the first cache between two steps that read them */

typedef struct { const void *data; int64_t type, row_stride, num_rows, width; } Scores; /* [N, L] */

/* The best labels of each row, equal scores by label. */
typedef struct {
    Scores scores;
    int64_t k, depth;    /* depth is k, or k + 1 to show whether the cut-off falls inside a tie */
    void *values;        /* [N, depth], float or double */
    int64_t *ids;        /* [N, k] */
    atomic_llong *flags; /* receives 1 if a row has equal values or NaN, 2 if its best k have NaN or -inf */
} TopK;

/* The largest score of each group of labels; NaN if a label of the group has NaN, -inf for a group without labels. */
typedef struct {
    Scores scores;
    const int32_t *groups; /* [L]: the group of each label */
    int64_t num_groups;
    void *largest; /* [N, num_groups] */
} Largest;

/* For each given label, the number of scores of its row that are higher, equal, and equal in a lower column. */
typedef struct {
    Scores scores;
    const int64_t *starts;           /* [N + 1]: the place of the first given label of each row */
    const int64_t *labels;           /* [T]: columns, which may lie outside of `scores` */
    const double *own;               /* [T]: the scores of the given labels */
    int64_t *above, *equal, *before; /* [T], 0 at first */
} Counts;

INLINE float float_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, 4);
    return number;
}

/* Return a number of type float16 as a float. */
INLINE float from_half(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13, exponent = bits & 0x0f800000, subnormal_bits;
    /* a subnormal number has the exponent of the least normal number */
    float subnormal = float_of(bits + 0x38800000) - 0x1p-14f;
    memcpy(&subnormal_bits, &subnormal, 4);
    uint32_t normal_bits = bits + (exponent == 0x0f800000 ? 0x70000000 : 0x38000000);
    return float_of((exponent == 0 ? subnormal_bits : normal_bits) | (uint32_t)(half & 0x8000) << 16);
}

/* Return 64 bytes of 0 and 1 as 64 bits, the first byte as the last bit. */
INLINE uint64_t bits_of(const uint8_t *flags) {
    uint64_t bits = 0, word;
    for (int i = 0; i < 8; i++) {
        memcpy(&word, flags + 8 * i, 8);
        bits |= (word * 0x0102040810204080) >> 56 << 8 * i; /* the product moves eight flags into its first byte */
    }
    return bits;
}

/* Fetch the same part of the next row into the second cache. A processor holds few requests to the memory at a time, so
   each step fetches a small part: requests for a whole row would make the current row wait. */
INLINE void fetch_next(const Scores *scores, int64_t row, int64_t first, int64_t count) {
    int64_t size = scores->type == DOUBLE ? 8 : scores->type == SINGLE ? 4 : 2;
    const char *next = (const char *)scores->data + ((row + 1) * scores->row_stride + first) * size;
    for (int64_t i = 0; row + 1 < scores->num_rows && i < count * size; i += 64)
        __builtin_prefetch(next + i, 0, 2);
}

/* Names in the part that is compiled twice: OF(sort) is sort_float, then sort_double. */
#define JOIN2(name, real) name##_##real
#define JOIN(name, real) JOIN2(name, real)
#define OF(name) JOIN(name, REAL)
typedef uint32_t key_float;
typedef uint64_t key_double;
#define KEY OF(key)
#define SIGN ((KEY)1 << (8 * sizeof(KEY) - 1))
#define REAL float
#include "_native.c"
#undef REAL
#define REAL double
#include "_native.c"

/* Fetch the beginning and the end of a row that is read soon. Where lists are cut, rows are not neighbours, so that the
   processor does not fetch them by itself. */
#define FETCH(row, length) (__builtin_prefetch(row), __builtin_prefetch((row) + (length)))

/* ---- The relevant labels of a row, in a hash table with open addressing ---- */

enum { MARKS = 1 << 12 }; /* bytes, so few that they stay in the first cache */

typedef struct {
    int64_t label;
    uint32_t row;   /* from 1; a slot of another row is free, so that the table need not be emptied */
    uint32_t place; /* of the label among the relevant labels of the row; LISTED once the list holds it */
} Slot;
#define LISTED UINT32_MAX

typedef struct {
    Slot *slots;
    uint64_t last; /* the index of the last slot, a power of two less 1 */
    int shift;
    uint8_t *marks; /* 1 at the last bits of each relevant label of the row, else 0 */
} LabelTable;

/* Return a table for `count` labels in the memory of a thread. It stays so empty that labels seldom share a slot. */
INLINE LabelTable table_for(int64_t count, char *memory, size_t *used) {
    LabelTable table = {.last = 15, .shift = 60};
    while ((int64_t)table.last < 16 * count) {
        table.last = 2 * table.last + 1;
        table.shift--;
    }
    table.slots = part_of(memory, used, (int64_t)table.last + 1, sizeof(Slot));
    table.marks = part_of(memory, used, MARKS, 1);
    return table;
}

/* Return the slot of a label, or the free slot where it would be put. */
INLINE Slot *find_slot(const LabelTable *table, uint32_t row, int64_t label) {
    uint64_t i = (uint64_t)label * 0x9E3779B97F4A7C15 >> table->shift; /* 2^64 / golden ratio scatters labels well */
    while (table->slots[i].row == row && table->slots[i].label != label)
        i = (i + 1) & table->last;
    return &table->slots[i];
}

INLINE uint8_t *mark_of(const LabelTable *table, int64_t label) { return &table->marks[label & (MARKS - 1)]; }

/* ---- Hits: the relevant labels that a list holds ---- */

/* Tables of hits. A key is a row, or a row and bucket. Formulas read the first hits of all keys, then the second ones,
   so the keys of a column are neighbours. */
typedef struct {
    int64_t width, num_keys, *ranks, *labels; /* [W, keys] */
    double *gains;                            /* [W, keys] or NULL */
    atomic_llong *least;                      /* receives the negative of the largest number of hits of a key */
} Hits;

/* The hits of each list, by rank. The targets are a mask, or labels: M of each row, or those from `starts` on. */
typedef struct {
    const int64_t *ids; /* [N, K], -1 for no label */
    int64_t ids_stride, num_rows, length;
    const uint8_t *mask;    /* [N, L], or NULL for labels */
    const int64_t *targets; /* [N, M] or [T], -1 for no label; NULL for a mask */
    int64_t target_stride, target_width, most_targets; /* no row has more than `most_targets` labels */
    const int64_t *starts;                             /* [N + 1], or NULL for labels [N, M] */
    const double *gains;                               /* in the shape of `targets`; NULL if each gain is 1 */
    Hits hits;
} Lists;

/* Write the hit of a key with this number, from 0; a hit behind the last column is left out. */
INLINE void put_hit(const Hits *hits, int64_t key, int64_t number, int64_t rank, int64_t label, double gain) {
    if (number >= hits->width)
        return;
    int64_t cell = number * hits->num_keys + key;
    hits->ranks[cell] = rank;
    hits->labels[cell] = label;
    if (hits->gains)
        hits->gains[cell] = gain;
}

/* Pad the cells behind the last hit of a key. */
INLINE void pad_hits(const Hits *hits, int64_t key, int64_t num_hits) {
    for (int64_t number = num_hits; number < hits->width; number++)
        put_hit(hits, key, number, NOT_RANKED, -1, 0);
}

/* Write the hits of a row by a mask. Returns their number, or -1 if an id is no column of the mask. */
INLINE int64_t hits_in_mask(const Lists *task, const int64_t *ids, int64_t row) {
    const uint8_t *mask = task->mask + row * task->target_stride;
    int64_t num_hits = 0;
    for (int64_t place = 0; place < task->length; place++) {
        if (ids[place] >= task->target_width)
            return -1;
        if (ids[place] >= 0 && mask[ids[place]])
            put_hit(&task->hits, row, num_hits++, place + 1, ids[place], 1);
    }
    return num_hits;
}

/* Put the relevant labels of a row into the table, and mark them. Returns the number of different labels. */
INLINE int64_t fill_table(const LabelTable *table, uint32_t row_number, const int64_t *targets, int64_t count) {
    int64_t num_labels = 0;
    for (int64_t i = 0; i < count; i++) {
        Slot *slot = find_slot(table, row_number, targets[i]);
        if (targets[i] < 0 || slot->row == row_number)
            continue;
        *slot = (Slot){targets[i], row_number, (uint32_t)i};
        *mark_of(table, targets[i]) = 1;
        num_labels++;
    }
    return num_labels;
}

/* Write the hits of a row by a table of its relevant labels, in one pass over the list. Returns the number of hits, or
   -1 if the row has more labels than the table has room for.

   Only ids at a mark are looked up: few ids of a list end in the same bits as a relevant label. */
INLINE int64_t hits_in_list(const Lists *task, const int64_t *ids, int64_t row, const LabelTable *table) {
    int64_t start = row * task->target_width, count = task->target_width;
    const int64_t *targets = task->targets + row * task->target_stride;
    if (task->starts) {
        start = task->starts[row];
        count = task->starts[row + 1] - start;
        targets = task->targets + start;
    }
    if (count > task->most_targets)
        return -1;

    uint32_t row_number = (uint32_t)row + 1;
    int64_t num_labels = fill_table(table, row_number, targets, count), num_hits = 0;
    for (int64_t first = 0; num_hits < num_labels && first < task->length; first += 64) {
        uint8_t flags[64] = {0};
        for (int64_t i = 0; i < smaller(64, task->length - first); i++)
            flags[i] = *mark_of(table, ids[first + i]);
        for (uint64_t bits = bits_of(flags); bits; bits &= bits - 1) {
            int64_t place = first + __builtin_ctzll(bits);
            Slot *slot = find_slot(table, row_number, ids[place]);
            if (slot->row != row_number || slot->place == LISTED)
                continue;
            double gain = task->gains ? task->gains[start + slot->place] : 1;
            put_hit(&task->hits, row, num_hits++, place + 1, ids[place], gain);
            slot->place = LISTED; /* only the first place of an id is a hit */
        }
    }

    for (int64_t i = 0; i < count; i++)
        *mark_of(table, targets[i]) = 0;
    return num_hits;
}

CLONES static int hit_rows(const void *argument, int64_t first, int64_t end, char *memory) {
    const Lists *task = argument;
    size_t used = 0;
    LabelTable table = table_for(task->most_targets, memory, &used);
    int64_t most_hits = 0;
    for (int64_t row = first; row < end; row++) {
        const int64_t *ids = task->ids + row * task->ids_stride;
        FETCH(ids + 8 * task->ids_stride, task->length);
        int64_t num_hits = task->mask ? hits_in_mask(task, ids, row) : hits_in_list(task, ids, row, &table);
        if (num_hits < 0)
            return NO_SUCH_LABEL;
        pad_hits(&task->hits, row, num_hits);
        most_hits = larger(most_hits, num_hits);
    }
    lower(task->hits.least, -most_hits);
    return DONE;
}

int tailmetrics_hits(const Lists *task, int64_t threads) {
    size_t memory_size = 0;
    table_for(task->most_targets, NULL, &memory_size);
    double cost = 1.5 * (double)(task->length + task->most_targets + task->hits.width) + 30;
    return run(hit_rows, task, task->num_rows, memory_size, cost, threads);
}

/* ---- Checks of lists ---- */

enum { LOWEST, BELOW_HIGHEST, GAP_ROW, REPEAT_ROW }; /* answers; BELOW_HIGHEST is -1 - the highest id */

/* The ends of the ids of lists, the first row with an id behind a -1, and the first row with an id >= 0 twice. */
typedef struct {
    const int64_t *ids; /* [N, K] */
    int64_t ids_stride, num_rows, length;
    atomic_llong *answers; /* four numbers, the largest int64 at first */
} Check;

/* Return the number of stamps for lists of a length, a power of two and at least 256 for each id. Different ids then
   share a stamp in every seventh list of 100 ids, and about once in a list of 500. */
INLINE int64_t stamps_for(int64_t length) {
    int64_t stamps = 1 << 10;
    while (stamps < 256 * length)
        stamps *= 2;
    return stamps;
}

/* Whether the id at a place also stands at an earlier place. */
INLINE bool stands_before(const int64_t *ids, int64_t place) {
    bool is_repeated = false;
    for (int64_t i = 0; i < place; i++)
        is_repeated |= ids[i] == ids[place];
    return is_repeated;
}

/* Whether a list has an id behind a -1. */
INLINE bool has_gap(const int64_t *ids, int64_t length) {
    bool gap = false;
    for (int64_t i = 1; i < length; i++)
        gap |= ids[i - 1] < 0 && ids[i] >= 0;
    return gap;
}

/* Each id leaves the stamp of its row at its last bits. Only an id that meets the stamp of its row is compared with the
   ids before it: it is repeated, or another id or an older row, 255 rows before, has left the same stamp. */
CLONES static int check_rows(const void *argument, int64_t first, int64_t end, char *memory) {
    const Check *task = argument;
    const int64_t length = task->length, last_bits = stamps_for(length) - 1;
    int64_t lowest = INT64_MAX, highest = INT64_MIN, gap_row = INT64_MAX, repeat_row = INT64_MAX;
    uint8_t *stamps = (uint8_t *)memory;
    for (int64_t row = first; row < end; row++) {
        const int64_t *ids = task->ids + row * task->ids_stride;
        const uint8_t row_stamp = (uint8_t)(1 + row % 255); /* never 0, the stamp at first */
        FETCH(ids + 8 * task->ids_stride, length);
        for (int64_t i = 0; i < length; i++) {
            int64_t id = ids[i];
            uint8_t *stamp = &stamps[id & last_bits];
            if (*stamp == row_stamp && id >= 0 && row < repeat_row && stands_before(ids, i))
                repeat_row = row;
            *stamp = row_stamp;
            lowest = smaller(lowest, id);
            highest = larger(highest, id);
        }
        if (lowest < 0 && row < gap_row && has_gap(ids, length))
            gap_row = row;
    }
    lower(&task->answers[LOWEST], lowest);
    lower(&task->answers[BELOW_HIGHEST], ~highest);
    lower(&task->answers[GAP_ROW], gap_row);
    lower(&task->answers[REPEAT_ROW], repeat_row);
    return DONE;
}

int tailmetrics_check_lists(const Check *task, int64_t threads) {
    return run(check_rows, task, task->num_rows, (size_t)stamps_for(task->length), (double)task->length + 15, threads);
}

/* ---- Buckets ---- */

typedef struct { const void *table; int64_t bytes, num_labels, num_buckets; } Buckets; /* [L], one or four bytes each */

/* Return the bucket of a label; `num_buckets` if there is no such label. */
INLINE int64_t bucket_of(const Buckets *buckets, int64_t label) {
    if ((uint64_t)label >= (uint64_t)buckets->num_labels)
        return buckets->num_buckets;
    int64_t bucket =
        buckets->bytes == 1 ? ((const uint8_t *)buckets->table)[label] : ((const int32_t *)buckets->table)[label];
    return smaller(bucket, buckets->num_buckets);
}

/* The hits of each row and bucket, with their ranks among the listed labels of their bucket. Without lists, hits keep
   their ranks, and lengths are 0. */
typedef struct {
    const int64_t *ids; /* [N, D], -1 for no label, or NULL */
    int64_t ids_stride, num_rows, depth;
    Buckets buckets;
    const int64_t *ranks, *labels; /* [W, N]: the hits of whole rows, by rank, NOT_RANKED behind the last one */
    const double *gains;           /* [W, N] or NULL */
    int64_t *lengths;              /* [N, G]: the number of labels of each bucket in the list */
    Hits hits;                     /* of each row and bucket */
} Within;

/* Count the labels of a list from `place` to `end` by bucket. Returns false if an id is no label. */
INLINE bool count_labels(
    const Buckets *buckets, const int64_t *ids, int64_t place, int64_t end, int64_t *lengths) {
    for (; place < end; place++) {
        int64_t bucket = bucket_of(buckets, ids[place]);
        if (ids[place] < 0)
            continue;
        if (bucket == buckets->num_buckets)
            return false;
        lengths[bucket]++;
    }
    return true;
}

/* Split the hits of a row by bucket, and count its list: up to each hit, whose rank is then known, and to the end.
   `num_hits` [G] receives the number of hits of each bucket. Returns false if an id is no label. */
INLINE bool split_row(const Within *task, int64_t row, int64_t *num_hits) {
    const Buckets *buckets = &task->buckets;
    const int64_t *ids = task->ids ? task->ids + row * task->ids_stride : NULL;
    int64_t first_key = row * buckets->num_buckets, place = 0, *lengths = task->lengths + first_key;
    for (int64_t number = 0; number <= task->hits.width; number++) {
        int64_t cell = number * task->num_rows + row;
        int64_t rank = number < task->hits.width ? task->ranks[cell] : NOT_RANKED;
        int64_t end = smaller(rank, task->depth);
        if (ids && place < end) {
            if (!count_labels(buckets, ids, place, end, lengths))
                return false;
            place = end;
        }
        if (rank == NOT_RANKED || (ids && rank > task->depth))
            return true;
        int64_t bucket = bucket_of(buckets, task->labels[cell]);
        if (bucket == buckets->num_buckets)
            return false;
        double gain = task->gains ? task->gains[cell] : 1;
        int64_t rank_in_bucket = ids ? lengths[bucket] : rank;
        put_hit(&task->hits, first_key + bucket, num_hits[bucket]++, rank_in_bucket, task->labels[cell], gain);
    }
    return true;
}

CLONES static int within_rows(const void *argument, int64_t first, int64_t end, char *memory) {
    const Within *task = argument;
    int64_t num_buckets = task->buckets.num_buckets, most_hits = 0, *num_hits = (int64_t *)(void *)memory;
    size_t size = sizeof(int64_t) * (size_t)num_buckets;
    for (int64_t row = first; row < end; row++) {
        memset(task->lengths + row * num_buckets, 0, size);
        memset(num_hits, 0, size);
        if (!split_row(task, row, num_hits))
            return NO_SUCH_LABEL;
        for (int64_t bucket = 0; bucket < num_buckets; bucket++) {
            pad_hits(&task->hits, row * num_buckets + bucket, num_hits[bucket]);
            most_hits = larger(most_hits, num_hits[bucket]);
        }
    }
    lower(task->hits.least, -most_hits);
    return DONE;
}

int tailmetrics_within_buckets(const Within *task, int64_t threads) {
    int64_t num_buckets = task->buckets.num_buckets;
    double cost = 1.5 * (double)task->depth + 2.0 * (double)(num_buckets * (task->hits.width + 4)) + 30;
    return run(within_rows, task, task->num_rows, (size_t)num_buckets * sizeof(int64_t), cost, threads);
}

/* ---- Sums of real numbers as whole numbers, which are the same in any order ---- */

#define LIMB_BITS 26

/* For each of S * G vectors of N values, the sums of the limbs of its values. The limbs of a value are whole numbers of
   LIMB_BITS bits, of which the last one counts units of 2^lowest. */
typedef struct {
    const double *values; /* [S, N, G]; a value is below 0 only if a chance value was subtracted */
    int64_t num_sums, num_rows, groups, num_limbs, lowest;
    int64_t bounded;    /* whether every value is known to fit into the limbs */
    atomic_llong *sums; /* [S, G, num_limbs + 1], 0 at first: the sums of limbs, and the number of values too large */
} Limbs;

/* Return the sum of the whole parts of numbers, and replace each number by the rest in units of the next limb. */
INLINE uint64_t add_up_limb(double *rest, int64_t count) {
    uint64_t sum = 0, bits;
    for (int64_t i = 0; i < count; i++) {
        /* the last bits of the shifted number are the whole number, below 0 too; its other bits are subtracted */
        double whole = trunc(rest[i]), shifted = whole + 0x1.8p52;
        memcpy(&bits, &shifted, sizeof bits);
        sum += bits - 0x4338000000000000;
        rest[i] = (rest[i] - whole) * 0x1p26;
    }
    return sum;
}

CLONES static int add_up_rows(const void *argument, int64_t first, int64_t end, char *memory) {
    const Limbs *task = argument;
    double *rest = (double *)(void *)memory; /* [TILE] */
    double scale = ldexp(1, -(int)(task->lowest + LIMB_BITS * (task->num_limbs - 1)));
    double limit = task->bounded ? INFINITY : ldexp(1, (int)(task->lowest + LIMB_BITS * task->num_limbs));
    for (int64_t sum = 0; sum < task->num_sums * task->groups; sum++) {
        atomic_llong *sums = task->sums + sum * (task->num_limbs + 1);
        const double *values = task->values + sum / task->groups * task->num_rows * task->groups + sum % task->groups;
        for (int64_t start = first; start < end; start += TILE) {
            int64_t count = smaller(TILE, end - start), too_large = 0;
            for (int64_t i = 0; i < count; i++) {
                double value = values[(start + i) * task->groups];
                rest[i] = value <= limit ? value * scale : 0;
                too_large += !(value <= limit); /* NaN too */
            }
            for (int64_t limb = 0; limb < task->num_limbs; limb++)
                atomic_fetch_add(&sums[limb], (int64_t)add_up_limb(rest, count));
            atomic_fetch_add(&sums[task->num_limbs], too_large);
        }
    }
    return DONE;
}

int tailmetrics_add_up(const Limbs *task, int64_t threads) {
    double cost = 1.0 * (double)(task->num_sums * task->groups * (task->num_limbs + 1));
    return run(add_up_rows, task, task->num_rows, sizeof(double) * TILE, cost, threads);
}

#else /* ---- The part of the file that is compiled for each type of REAL ---- */

/* Return `count` scores of a row from `first` on. Scores of two bytes are converted, and written to `tile`. */
INLINE const REAL *OF(read)(const Scores *scores, int64_t row, int64_t first, int64_t count, REAL *tile) {
    int64_t start = row * scores->row_stride + first;
    if (scores->type >= SINGLE)
        return (const REAL *)scores->data + start;
    const uint16_t *halves = (const uint16_t *)scores->data + start;
    for (int64_t i = 0; i < count; i++)
        tile[i] = scores->type == HALF ? from_half(halves[i]) : float_of((uint32_t)halves[i] << 16);
    return tile;
}

/* Return a whole number that ascends from the best score to the worst: NaN, inf, ..., -inf. 0 and -0 are the same. */
INLINE KEY OF(key_of)(REAL score) {
    KEY bits;
    REAL without_negative_zero = score + 0;
    memcpy(&bits, &without_negative_zero, sizeof bits);
    return score != score ? 0 : bits & SIGN ? bits : ~(bits | SIGN);
}

INLINE REAL OF(score_of)(KEY key) {
    KEY bits = key & SIGN ? key : ~(key | SIGN);
    REAL score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* Return a key that at least `k` of the keys reach, and at most `k + slack`; if equal keys leave no such key, the least
   key that `k` of them reach. An interval of keys is halved, which takes few passes, each without a branch. */
INLINE KEY OF(kth)(const KEY *keys, int64_t count, int64_t k, int64_t slack) {
    KEY low = keys[0], high = keys[0];
    for (int64_t i = 1; i < count; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    while (low < high) {
        KEY middle = low + (high - low) / 2, reached = 0;
        for (int64_t i = 0; i < count; i++)
            reached += keys[i] <= middle;
        if ((int64_t)reached < k) {
            low = middle + 1;
            continue;
        }
        high = middle;
        if ((int64_t)reached <= k + slack)
            break;
    }
    return high;
}

/* The memory with which a thread finds the best labels of a row. */
typedef struct {
    KEY *keys;       /* the keys of candidates, in the order of their labels */
    uint32_t *ids;   /* their labels */
    KEY *spare_keys; /* for sorting, and for maxima */
    uint32_t *spare_ids;
    REAL *tile; /* [TILE]: converted scores */
} OF(Candidates);

static OF(Candidates) OF(candidates_for)(int64_t depth, int64_t width, char *memory, size_t *used) {
    int64_t most = larger(4 * RUN, smaller(6 * depth + TILE, width));
    OF(Candidates) candidates = {.keys = part_of(memory, used, most, sizeof(KEY))};
    candidates.spare_keys = part_of(memory, used, most, sizeof(KEY));
    candidates.ids = part_of(memory, used, most, sizeof(uint32_t));
    candidates.spare_ids = part_of(memory, used, most, sizeof(uint32_t));
    candidates.tile = part_of(memory, used, smaller(TILE, width), sizeof(REAL));
    return candidates;
}

INLINE void OF(copy_back)(const OF(Candidates) *candidates, int64_t count) {
    memcpy(candidates->keys, candidates->spare_keys, sizeof(KEY) * (size_t)count);
    memcpy(candidates->ids, candidates->spare_ids, sizeof(uint32_t) * (size_t)count);
}

/* Sort few keys: the place of a key is the number of keys before it. This takes less time than to count digits. */
INLINE void OF(sort_few)(const OF(Candidates) *candidates, int64_t count) {
    const KEY *keys = candidates->keys;
    for (KEY i = 0; i < (KEY)count; i++) {
        KEY place = 0, key = keys[i];
        for (KEY j = 0; j < (KEY)count; j++)
            place += (keys[j] < key) | ((keys[j] == key) & (j < i));
        candidates->spare_keys[place] = key;
        candidates->spare_ids[place] = candidates->ids[i];
    }
    OF(copy_back)(candidates, count);
}

/* Sort keys in ascending order, with their labels; equal keys stay in their order. This is a radix sort, by one byte
   after the other, the last byte first. */
INLINE void OF(sort)(const OF(Candidates) *candidates, int64_t count) {
    const KEY *keys = candidates->keys;
    uint32_t counts[sizeof(KEY)][256]; /* for each byte, how often each digit occurs */
    if (count <= 128) {
        OF(sort_few)(candidates, count);
        return;
    }
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < count; i++)
        for (size_t byte = 0; byte < sizeof(KEY); byte++)
            counts[byte][keys[i] >> 8 * byte & 255]++;

    for (size_t byte = 0; byte < sizeof(KEY); byte++) {
        uint32_t *starts = counts[byte], start = 0;
        if (starts[keys[0] >> 8 * byte & 255] == count) /* all keys have the same digit */
            continue;
        for (int digit = 0; digit < 256; digit++) {
            uint32_t with_digit = starts[digit];
            starts[digit] = start;
            start += with_digit;
        }
        for (int64_t i = 0; i < count; i++) {
            uint32_t place = starts[keys[i] >> 8 * byte & 255]++;
            candidates->spare_keys[place] = keys[i];
            candidates->spare_ids[place] = candidates->ids[i];
        }
        OF(copy_back)(candidates, count);
    }
}

/* Append the scores of a tile that are above the bar, and NaN, to the candidates, in the order of their labels. If the
   bar is NaN, all scores are appended.

   The tile holds `count` scores of a row from `first` on. Returns the new number of candidates. */
INLINE int64_t OF(collect)(const Scores *scores, int64_t row, int64_t first, int64_t count, const REAL *tile, REAL bar,
    const OF(Candidates) *candidates, int64_t num_candidates) {
    for (int64_t i = 0; i < count; i += RUN) {
        int64_t run_length = smaller(RUN, count - i);
        uint8_t flags[RUN] = {0};
        int any = 0;
        fetch_next(scores, row, first + i, run_length);
        for (int64_t j = 0; j < run_length; j++)
            any |= !(tile[i + j] <= bar);
        if (!any)
            continue;
        for (int64_t j = 0; j < run_length; j++)
            flags[j] = !(tile[i + j] <= bar);
        for (uint64_t bits = bits_of(flags); bits; bits &= bits - 1) {
            int64_t place = i + __builtin_ctzll(bits);
            candidates->keys[num_candidates] = OF(key_of)(tile[place]);
            candidates->ids[num_candidates++] = (uint32_t)(first + place);
        }
    }
    return num_candidates;
}

/* Return a bar: at least `depth` scores of the row from `start` on are above it, and seldom many more of those that are
   read to find it. NaN if all of these are -inf.

   The scores that are read are dealt out to groups. The bar is the next number below the score that the maxima of
   `depth` groups reach. */
INLINE REAL OF(bar_of)(
    const Scores *scores, int64_t row, int64_t start, int64_t depth, const OF(Candidates) *candidates) {
    int64_t num_groups = RUN;
    while (num_groups < 3 * depth)
        num_groups *= 2;
    int64_t reach = start ? TILE : smaller(larger(128 * depth, 2048), larger(65536, 3 * num_groups));
    int64_t end = smaller(scores->width, start + reach), step = smaller(num_groups, TILE);

    REAL *maxima = (REAL *)candidates->spare_keys; /* a key has the size of a score */
    for (int64_t i = 0; i < num_groups; i++)
        maxima[i] = -INFINITY;
    for (int64_t first = start; first < end; first += TILE) {
        int64_t count = smaller(TILE, end - first);
        const REAL *tile = OF(read)(scores, row, first, count, candidates->tile);
        for (int64_t from = 0; from < count; from += step) {
            REAL *group_maxima = maxima + ((first + from) & (num_groups - 1));
            for (int64_t i = from; i < smaller(from + step, count); i++)
                group_maxima[i - from] = tile[i] > group_maxima[i - from] ? tile[i] : group_maxima[i - from];
        }
    }

    KEY *keys = candidates->spare_keys;
    for (int64_t i = 0; i < num_groups; i++)
        keys[i] = OF(key_of)(maxima[i]);
    KEY next_lower = OF(kth)(keys, num_groups, depth, depth / 16) + 1; /* the key of NaN behind that of -inf */
    REAL bar = OF(score_of)(next_lower);
    /* a processor may be set to take subnormal numbers for 0 */
    return bar > -FLT_MIN && bar < FLT_MIN ? -FLT_MIN : bar;
}

/* Find the best `depth` labels of a row: they are the first candidates afterwards, best first.

   Scores above a bar are collected. Whenever there are twice as many as are needed, they are sorted, and the bar rises
   to the worst of the best ones. An equal score that comes later loses, because its label is higher. */
INLINE void OF(find_best)(const TopK *task, int64_t row, const OF(Candidates) *candidates) {
    const Scores *scores = &task->scores;
    int64_t depth = task->depth, width = scores->width, num_candidates = 0;
    /* in a narrow row most scores would be above a first bar */
    REAL bar = width >= 8 * depth + 16 ? OF(bar_of)(scores, row, 0, depth, candidates) : (REAL)NAN;
    bool ascends = false;
    for (int64_t first = 0; first < width; first += TILE) {
        int64_t count = smaller(TILE, width - first);
        REAL tile_bar = bar;
        if (ascends) /* all scores of the tile may be above the bar */
            tile_bar = OF(bar_of)(scores, row, first, depth, candidates);
        bar = tile_bar > bar ? tile_bar : bar;
        const REAL *tile = OF(read)(scores, row, first, count, candidates->tile);
        num_candidates = OF(collect)(scores, row, first, count, tile, bar, candidates, num_candidates);
        if (num_candidates >= 2 * depth || first + TILE >= width) {
            OF(sort)(candidates, num_candidates);
            bar = OF(score_of)(candidates->keys[depth - 1]);
            ascends |= num_candidates >= 4 * depth;
            num_candidates = depth;
        }
    }
}

CLONES static int OF(top_k_rows)(const void *argument, int64_t first_row, int64_t end_row, char *memory) {
    const TopK *task = argument;
    int64_t depth = task->depth, flags = 0;
    size_t used = 0;
    OF(Candidates) candidates = OF(candidates_for)(depth, task->scores.width, memory, &used);
    for (int64_t row = first_row; row < end_row; row++) {
        OF(find_best)(task, row, &candidates);

        REAL *values = (REAL *)task->values + row * depth;
        for (int64_t i = 0; i < depth; i++)
            values[i] = OF(score_of)(candidates.keys[i]);
        for (int64_t i = 0; i < task->k; i++)
            task->ids[row * task->k + i] = candidates.ids[i];

        for (int64_t i = 1; i < depth; i++)
            flags |= !(values[i - 1] > values[i]);
        if (values[0] != values[0] || values[task->k - 1] == -INFINITY)
            flags |= 2;
    }
    atomic_fetch_or(task->flags, flags);
    return DONE;
}

int OF(tailmetrics_top_k)(const TopK *task, int64_t threads) {
    double cost = 0.3 * (double)task->scores.width + 20.0 * (double)task->depth + 500;
    size_t memory_size = 0;
    OF(candidates_for)(task->depth, task->scores.width, NULL, &memory_size);
    return run(OF(top_k_rows), task, task->scores.num_rows, memory_size, cost, threads);
}

/* Write the least key of each group of labels to `least` [num_groups].

   Neighbours are often in one group, and then each step would wait for the step before it. So `num_parts` parts of the
   row are read side by side, each with least keys of its own, `least` [num_parts, num_groups]. */
INLINE void OF(least_keys)(const Largest *task, const KEY *keys, KEY *least, int num_parts) {
    const int32_t *groups = task->groups;
    int64_t num_groups = task->num_groups, width = task->scores.width, part_width = width / num_parts;
    for (int64_t i = 0; i < num_parts * num_groups; i++)
        least[i] = OF(key_of)(-INFINITY);
    for (int64_t i = 0; i < part_width; i++)
        for (int part = 0; part < num_parts; part++) {
            int64_t label = part * part_width + i;
            KEY key = keys[label], *group_least = least + part * num_groups + groups[label];
            *group_least = key < *group_least ? key : *group_least;
        }
    for (int64_t i = num_parts * part_width; i < width; i++)
        least[groups[i]] = keys[i] < least[groups[i]] ? keys[i] : least[groups[i]];
    for (int part = 1; part < num_parts; part++) {
        const KEY *part_least = least + part * num_groups;
        for (int64_t i = 0; i < num_groups; i++)
            least[i] = part_least[i] < least[i] ? part_least[i] : least[i];
    }
}

CLONES static int OF(largest_rows)(const void *argument, int64_t first_row, int64_t end_row, char *memory) {
    const Largest *task = argument;
    int64_t width = task->scores.width;
    KEY *keys = (KEY *)(void *)memory, *least = keys + width;
    for (int64_t row = first_row; row < end_row; row++) {
        const REAL *scores = OF(read)(&task->scores, row, 0, width, NULL);
        REAL *largest = (REAL *)task->largest + row * task->num_groups;
        for (int64_t i = 0; i < width; i++)
            keys[i] = OF(key_of)(scores[i]);
        if (8 * task->num_groups <= width)
            OF(least_keys)(task, keys, least, 8);
        else
            OF(least_keys)(task, keys, least, 1);
        for (int64_t group = 0; group < task->num_groups; group++)
            largest[group] = OF(score_of)(least[group]);
    }
    return DONE;
}

int OF(tailmetrics_largest)(const Largest *task, int64_t threads) {
    int64_t num_keys = task->scores.width + larger(task->scores.width, task->num_groups);
    double cost = (double)task->scores.width + 100;
    return run(OF(largest_rows), task, task->scores.num_rows, sizeof(REAL) * (size_t)num_keys, cost, threads);
}

/* Add the counts of a tile to the counts of the given label `t`. The tile holds `count` scores from `first` on. */
INLINE void OF(count_in_tile)(const Counts *task, int64_t t, const REAL *tile, int64_t first, int64_t count) {
    int64_t place = task->labels[t] - first, before = 0;
    REAL own = (REAL)task->own[t];
    KEY above = 0, reached = 0;
    for (int64_t i = 0; i < count; i++) {
        above += tile[i] > own;
        reached += tile[i] >= own;
    }
    int64_t equal = (int64_t)(reached - above);
    bool is_in_tile = place >= 0 && place < count && tile[place] == own;
    if (equal > is_in_tile) /* other labels have an equal score */
        for (int64_t i = 0; i < smaller(place, count); i++)
            before += tile[i] == own;
    task->above[t] += (int64_t)above;
    task->equal[t] += equal;
    task->before[t] += before;
}

/* A tile of scores is compared with each given label of its row, so that the scores are fetched from memory once. */
CLONES static int OF(count_rows)(const void *argument, int64_t first_row, int64_t end_row, char *memory) {
    const Counts *task = argument;
    int64_t width = task->scores.width, num_tiles = (width + TILE - 1) / TILE;
    for (int64_t number = first_row * num_tiles; number < end_row * num_tiles; number++) {
        int64_t row = number / num_tiles, first = number % num_tiles * TILE, count = smaller(TILE, width - first);
        const REAL *tile = OF(read)(&task->scores, row, first, count, (REAL *)(void *)memory);
        for (int64_t t = task->starts[row]; t < task->starts[row + 1]; t++)
            OF(count_in_tile)(task, t, tile, first, count);
    }
    return DONE;
}

int OF(tailmetrics_rank_counts)(const Counts *task, int64_t threads) {
    double labels_per_row = (double)task->starts[task->scores.num_rows] / (double)task->scores.num_rows;
    double cost = (double)task->scores.width * (0.2 + 0.1 * labels_per_row) + 100;
    return run(OF(count_rows), task, task->scores.num_rows, sizeof(REAL) * TILE, cost, threads);
}

#endif
