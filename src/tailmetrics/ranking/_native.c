/* The steps of a ranking on the CPU that read much: each function takes rows in blocks over threads of its own.

Called by native.py through ctypes, which gives Python's lock away for the whole of a call. Nothing is kept from call to
call. A task holds addresses, sizes and distances of two rows in elements, eight bytes each; columns lie side by side.
Threads are those of the system, POSIX or Windows: an OpenMP run time beside that of torch could hang.

Rows are of N, labels of L, places of a list of K, relevant labels of a row of M, buckets of G, cells of hits of W.
The lower part of this file is compiled twice, for float and for double, by including itself. */
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
#define CLONES /* elsewhere the processor that the compiler aims at is all there is */
#endif
#define INLINE static inline __attribute__((always_inline)) /* into each of the clones */

enum { DONE, NO_MEMORY, NO_SUCH_LABEL }; /* what a function returns */
enum { HALF, BRAIN, SINGLE, DOUBLE };    /* types of scores */
enum { MARKS = 1 << 12 };                /* so few that the first cache holds them, a byte each */
static const int64_t NOT_RANKED = (int64_t)1 << 62;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- Rows over threads ---- */

#define MOST_THREADS 256
#ifndef BLOCK /* tests make both small */
#define WORTH_A_THREAD 200000 /* nanoseconds: to start and to join a thread takes 20,000 to 50,000 */
#define BLOCK 50000           /* nanoseconds: so that no thread waits long for the last block of another */
#endif

typedef int Rows(const void *task, int64_t first, int64_t end, char *room); /* returns a code */
typedef struct {
    Rows *rows;
    const void *task;
    int64_t num_rows, block;
    size_t room; /* bytes, all 0 at first, that each thread needs beside its task */
    atomic_llong next, active, holders; /* the next row; threads at work on a block; threads that know of the job */
    atomic_int code;
} Job;

static void stop(Job *job, int code) {
    atomic_store(&job->code, code);
    atomic_store(&job->next, job->num_rows);
}

/* Take blocks of rows until there are no more; a thread that gets no memory takes none. */
static bool take_blocks(Job *job) {
    char *room = calloc(1, job->room);
    bool more = room != NULL, some = more;
    while (more) {
        atomic_fetch_add(&job->active, 1);
        int64_t first = atomic_fetch_add(&job->next, job->block);
        more = first < job->num_rows;
        int code = more ? job->rows(job->task, first, smaller(first + job->block, job->num_rows), room) : DONE;
        if (code)
            stop(job, code);
        atomic_fetch_sub(&job->active, 1);
    }
    free(room);
    return some;
}

static HELPER help(void *job) {
    take_blocks(job);
    if (atomic_fetch_sub(&((Job *)job)->holders, 1) == 1)
        free(job);
    return 0;
}

static bool start_thread(Job *job) { /* nobody joins it */
#ifdef _WIN32
    HANDLE thread = CreateThread(NULL, 0, help, job, 0, NULL);
    if (thread)
        CloseHandle(thread);
    return thread != NULL;
#else
    pthread_t thread;
    bool started = !pthread_create(&thread, NULL, help, job);
    if (started)
        pthread_detach(thread);
    return started;
#endif
}

/* Run a task on up to so many threads; a row is estimated to take so many nanoseconds. Nobody waits for a thread that a
   busy machine has not started yet: it finds no block later, and looks at nothing but the job, which the last one frees. */
static int run(Rows *rows, const void *task, int64_t num_rows, size_t room, double cost, int64_t threads) {
    double worth = cost * (double)num_rows / WORTH_A_THREAD;
    int64_t wanted = smaller(threads, (int64_t)(worth < MOST_THREADS ? worth : MOST_THREADS));
    Job *job = malloc(sizeof *job);
    if (!job)
        return NO_MEMORY;
    *job = (Job){rows, task, num_rows, (int64_t)(BLOCK / cost) + 1, room + 1, 0, 0, larger(1, wanted), DONE};
    while (--wanted > 0)
        if (!start_thread(job)) /* where no more can be had, fewer do it all */
            atomic_fetch_sub(&job->holders, 1);
    if (!take_blocks(job))
        stop(job, NO_MEMORY);
    while (atomic_load(&job->active))
        sched_yield();
    int code = atomic_load(&job->code);
    if (atomic_fetch_sub(&job->holders, 1) == 1)
        free(job);
    return code;
}

/* The next part of a thread's room; of no room, only how much is used of it. */
INLINE void *part(char *room, size_t *used, int64_t count, size_t size) {
    char *here = room ? room + *used : NULL;
    *used += ((size_t)count * size + 63) / 64 * 64;
    return here;
}

/* ---- Scores ---- */

#define RUN 64 /* so many labels are looked at together, without a branch */
#define TILE 4096 /* scores read together: 16 or 32 KB, which the first cache holds between two looks at them */

typedef struct { const void *data; int64_t type, row_stride, num_rows, width; } Scores;
typedef struct {
    Scores scores;
    int64_t k, depth;   /* depth is k, or one more, which shows whether the cut falls inside a tie */
    void *values;       /* [N, depth], float or double */
    int64_t *ids;       /* [N, k] */
    atomic_llong *found; /* 1 is added if a row has equal values or NaN, 2 if NaN or -inf is among its best k */
} TopK;
typedef struct {
    Scores scores;
    const int32_t *groups; /* [L] */
    int64_t num_groups;
    void *largest; /* [N, num_groups] */
} Largest;
typedef struct {
    Scores scores;
    const int64_t *starts, *wanted;  /* [N + 1], [T]: columns, which may lie outside of `scores` */
    const double *own;               /* [T], the scores of the wanted labels */
    int64_t *above, *equal, *before; /* [T], 0 at first */
} Counts;

INLINE float float_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, 4);
    return number;
}

INLINE float from_half(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13, exponent = bits & 0x0f800000, small;
    float number = float_of(bits + 0x38800000) - 0x1p-14f; /* a subnormal has the exponent of the least normal number */
    memcpy(&small, &number, 4);
    bits = exponent == 0 ? small : bits + (exponent == 0x0f800000 ? 0x70000000 : 0x38000000);
    return float_of(bits | (uint32_t)(half & 0x8000) << 16);
}

INLINE uint64_t bits_of(const uint8_t *flags) { /* 64 bytes of 0 and 1 as 64 bits */
    uint64_t bits = 0, word;
    for (int i = 0; i < 8; i++) {
        memcpy(&word, flags + 8 * i, 8);
        bits |= (word * 0x0102040810204080) >> 56 << 8 * i;
    }
    return bits;
}

/* Ask the memory for a part of the next row, which the second cache then holds when it is read. A little at a time, since
   a processor holds few requests to the memory: those of a whole row at once would wait for it. */
INLINE void fetch_next(const Scores *scores, int64_t row, int64_t first, int64_t count) {
    int64_t size = scores->type == DOUBLE ? 8 : scores->type == SINGLE ? 4 : 2;
    const char *next = (const char *)scores->data + ((row + 1) * scores->row_stride + first) * size;
    for (int64_t i = 0; row + 1 < scores->num_rows && i < count * size; i += 64)
        __builtin_prefetch(next + i, 0, 2);
}

/* Names of what is compiled twice: OF(sort) is sort_float, and sort_double. */
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

/* Ask the memory for a row that is read soon: where lists are cut, no processor guesses where the next one begins. */
#define FETCH(row, length) (__builtin_prefetch(row), __builtin_prefetch((row) + (length)))

/* ---- Labels: a small table of those of a row, by open addressing ---- */

typedef struct { int64_t label; uint32_t row, number; } Slot; /* free if it is of another row, counted from 1 */
typedef struct { Slot *slots; uint64_t last; int shift; uint8_t *marks; } Table; /* marks: by the last bits of labels */

INLINE Table table_for(int64_t count, char *room, size_t *used) {
    Table table = {.last = 15, .shift = 60};
    for (; (int64_t)table.last < 16 * count; table.shift--) /* so empty that few labels meet */
        table.last = 2 * table.last + 1;
    table.slots = part(room, used, (int64_t)table.last + 1, sizeof(Slot));
    table.marks = part(room, used, MARKS, 1);
    return table;
}

INLINE Slot *find(const Table *table, uint32_t row, int64_t label) { /* where a label is, or the free place for it */
    uint64_t i = (uint64_t)label * 0x9E3779B97F4A7C15 >> table->shift; /* 2^64 / golden ratio scatters well */
    while (table->slots[i].row == row && table->slots[i].label != label)
        i = (i + 1) & table->last;
    return &table->slots[i];
}

/* ---- Hits: the relevant labels that a list holds ---- */

typedef struct {
    int64_t width, num_keys, *ranks, *labels; /* [W, keys]: formulas take first hits together, then second ones */
    double *gains;                            /* [W, keys] or NULL */
    atomic_llong *fewest;                     /* - the most hits of a key, a row or a row and bucket */
} Hits;
typedef struct {
    const int64_t *ids; /* [N, K] */
    int64_t ids_stride, num_rows, length;
    const uint8_t *mask;    /* [N, L], or NULL: labels are wanted */
    const int64_t *wanted;  /* [N, M], or [T] where rows begin at `starts` */
    int64_t target_stride, target_width, most; /* `most` labels are wanted in a row */
    const int64_t *starts;  /* [N + 1], or NULL */
    const double *gains;    /* [T], or [N, M], or NULL */
    Hits hits;
} Lists;

INLINE void put(const Hits *hits, int64_t key, int64_t number, int64_t rank, int64_t label, double gain) {
    int64_t cell = number * hits->num_keys + key;
    if (number >= hits->width)
        return;
    hits->ranks[cell] = rank;
    hits->labels[cell] = label;
    if (hits->gains)
        hits->gains[cell] = gain;
}

/* Leave nothing undefined behind the hits; return how many there are. */
INLINE int64_t fill_up(const Hits *hits, int64_t key, int64_t count) {
    for (int64_t number = count; number < hits->width; number++)
        put(hits, key, number, NOT_RANKED, -1, 0);
    return count;
}

INLINE void lower(atomic_llong *lowest, int64_t value) {
    long long before = atomic_load(lowest);
    while (value < before && !atomic_compare_exchange_weak(lowest, &before, value)) {
    }
}

/* Write the hits of a row; return how many there are, or -1 where an id is no label. */
INLINE int64_t hits_in_mask(const Lists *task, const int64_t *ids, int64_t row) {
    int64_t found = 0;
    for (int64_t place = 0; place < task->length; place++) {
        if (ids[place] >= task->target_width)
            return -1;
        if (ids[place] >= 0 && task->mask[row * task->target_stride + ids[place]])
            put(&task->hits, row, found++, place + 1, ids[place], 1);
    }
    return found;
}

/* Put the wanted labels of a row into a table, and look up a list in one pass: few of it, which end in the same twelve
   bits as a wanted one. Those are marked, and the marks are 0 again behind the row. */
INLINE int64_t hits_in_list(const Lists *task, const int64_t *ids, int64_t row, Table *table) {
    int64_t start = task->starts ? task->starts[row] : row * task->target_width, distinct = 0, found = 0;
    int64_t count = task->starts ? task->starts[row + 1] - start : task->target_width;
    const int64_t *wanted = task->wanted + (task->starts ? start : row * task->target_stride);
    uint32_t number = (uint32_t)row + 1;
    if (count > task->most)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        Slot *slot = find(table, number, wanted[i]);
        if (wanted[i] < 0 || slot->row == number)
            continue;
        *slot = (Slot){wanted[i], number, (uint32_t)i};
        table->marks[wanted[i] & (MARKS - 1)] = 1;
        distinct++;
    }
    for (int64_t first = 0; found < distinct && first < task->length; first += 64) {
        uint8_t flags[64] = {0};
        for (int64_t i = 0; i < smaller(64, task->length - first); i++)
            flags[i] = table->marks[ids[first + i] & (MARKS - 1)];
        for (uint64_t bits = bits_of(flags); bits; bits &= bits - 1) {
            int64_t place = first + __builtin_ctzll(bits);
            Slot *slot = find(table, number, ids[place]);
            if (slot->row != number || slot->number == UINT32_MAX)
                continue;
            double gain = task->gains ? task->gains[start + slot->number] : 1;
            put(&task->hits, row, found++, place + 1, ids[place], gain);
            slot->number = UINT32_MAX; /* its first place counts */
        }
    }
    for (int64_t i = 0; i < count; i++)
        table->marks[wanted[i] & (MARKS - 1)] = 0;
    return found;
}

CLONES static int hit_rows(const void *argument, int64_t first, int64_t end, char *room) {
    const Lists *task = argument;
    size_t used = 0;
    int64_t most = 0;
    Table table = table_for(task->most, room, &used);
    for (int64_t row = first; row < end; row++) {
        const int64_t *ids = task->ids + row * task->ids_stride;
        FETCH(ids + 8 * task->ids_stride, task->length);
        int64_t found = task->mask ? hits_in_mask(task, ids, row) : hits_in_list(task, ids, row, &table);
        if (found < 0)
            return NO_SUCH_LABEL;
        most = larger(most, fill_up(&task->hits, row, found));
    }
    lower(task->hits.fewest, -most);
    return DONE;
}

int tailmetrics_hits(const Lists *task, int64_t threads) {
    size_t room = 0;
    table_for(task->most, NULL, &room);
    double cost = 1.5 * (double)(task->length + task->most + task->hits.width) + 30;
    return run(hit_rows, task, task->num_rows, room, cost, threads);
}

/* ---- Checks of lists ---- */

typedef struct {
    const int64_t *ids; /* [N, K] */
    int64_t ids_stride, num_rows, length;
    /* the lowest id; -1 - the highest; the first row with an id behind -1; the first that names an id twice */
    atomic_llong *found;
} Check;

/* At least 256 for each id: two ids share one in every seventh list of 100, and about once in a list of 500. */
INLINE int64_t stamps_for(int64_t length) {
    int64_t stamps = 1 << 10;
    while (stamps < 256 * length)
        stamps *= 2;
    return stamps;
}

/* Whether the id at a place stands before it too: asked only where it, another id or an old row has left its stamp. */
INLINE bool stands_before(const int64_t *ids, int64_t place) {
    bool before = false;
    for (int64_t i = 0; i < place; i++)
        before |= ids[i] == ids[place];
    return before;
}

CLONES static int check_rows(const void *argument, int64_t first, int64_t end, char *room) {
    const Check *task = argument;
    const int64_t length = task->length, last = stamps_for(length) - 1;
    int64_t low = INT64_MAX, high = INT64_MIN, first_gap = INT64_MAX, first_twice = INT64_MAX;
    for (int64_t row = first; row < end; row++) {
        const int64_t *ids = task->ids + row * task->ids_stride;
        const uint8_t own = (uint8_t)(1 + row % 255); /* never 0, the stamp where no row was yet */
        FETCH(ids + 8 * task->ids_stride, task->length);
        for (int64_t i = 0; i < length; i++) {
            int64_t id = ids[i];
            /* where the last bits of the id say; the stamp of an old row does no harm */
            uint8_t *stamp = (uint8_t *)room + (id & last);
            if (*stamp == own && id >= 0 && row < first_twice && stands_before(ids, i))
                first_twice = row;
            *stamp = own;
            low = smaller(low, id);
            high = larger(high, id);
        }
        for (int64_t i = 1; low < 0 && i < task->length; i++)
            first_gap = ids[i - 1] < 0 && ids[i] >= 0 ? smaller(first_gap, row) : first_gap;
    }
    lower(&task->found[0], low);
    lower(&task->found[1], ~high);
    lower(&task->found[2], first_gap);
    lower(&task->found[3], first_twice);
    return DONE;
}

int tailmetrics_check_lists(const Check *task, int64_t threads) {
    return run(check_rows, task, task->num_rows, (size_t)stamps_for(task->length), (double)task->length + 15, threads);
}

/* ---- Buckets ---- */

typedef struct { const void *table; int64_t bytes, num_labels, num_buckets; } Buckets; /* of each label */

INLINE int64_t bucket_of(const Buckets *buckets, int64_t label) { /* num_buckets where there is no such label */
    if ((uint64_t)label >= (uint64_t)buckets->num_labels)
        return buckets->num_buckets;
    int64_t bucket =
        buckets->bytes == 1 ? ((const uint8_t *)buckets->table)[label] : ((const int32_t *)buckets->table)[label];
    return smaller(bucket, buckets->num_buckets);
}

typedef struct {
    const int64_t *ids; /* [N, D], or NULL: ranks stay those in the whole list */
    int64_t ids_stride, num_rows, depth;
    Buckets buckets;
    const int64_t *ranks, *labels; /* [W, N] of the hits */
    const double *gains;           /* [W, N] or NULL */
    int64_t *lengths;              /* [N, G] */
    Hits hits;                     /* of each row and bucket */
} Within;

CLONES static int within_rows(const void *argument, int64_t first, int64_t end, char *room) {
    const Within *task = argument;
    const Buckets *buckets = &task->buckets;
    int64_t *found = (int64_t *)(void *)room, most = 0; /* hits of each bucket */
    size_t counts = sizeof(int64_t) * (size_t)buckets->num_buckets;
    for (int64_t row = first; row < end; row++) {
        int64_t key = row * buckets->num_buckets, place = 0;
        memset(task->lengths + key, 0, counts);
        memset(found, 0, counts);
        for (int64_t i = 0; i <= task->hits.width; i++) { /* count the list up to each hit, and then to its end */
            int64_t cell = i * task->num_rows + row, rank = i < task->hits.width ? task->ranks[cell] : NOT_RANKED;
            int64_t until = smaller(rank, task->depth);
            for (; task->ids && place < until; place++) {
                int64_t label = task->ids[row * task->ids_stride + place], bucket = bucket_of(buckets, label);
                if (label >= 0 && bucket == buckets->num_buckets)
                    return NO_SUCH_LABEL;
                if (label >= 0)
                    task->lengths[key + bucket]++;
            }
            if (rank == NOT_RANKED || (task->ids && rank > task->depth))
                break;
            int64_t bucket = bucket_of(buckets, task->labels[cell]);
            if (bucket == buckets->num_buckets)
                return NO_SUCH_LABEL;
            double gain = task->gains ? task->gains[cell] : 1;
            rank = task->ids ? task->lengths[key + bucket] : rank;
            put(&task->hits, key + bucket, found[bucket]++, rank, task->labels[cell], gain);
        }
        for (int64_t g = 0; g < buckets->num_buckets; g++)
            most = larger(most, fill_up(&task->hits, key + g, found[g]));
    }
    lower(task->hits.fewest, -most);
    return DONE;
}

int tailmetrics_within_buckets(const Within *task, int64_t threads) {
    int64_t num_cells = task->buckets.num_buckets;
    double cost = 1.5 * (double)task->depth + 2.0 * (double)(num_cells * (task->hits.width + 4)) + 30;
    return run(within_rows, task, task->num_rows, (size_t)num_cells * sizeof(int64_t), cost, threads);
}

/* ---- Sums of real numbers as whole numbers, which are the same in any order ---- */

typedef struct {
    const double *values; /* [S, N, G], below 0 only where chance was taken off */
    int64_t num_sums, num_rows, groups, num_limbs, lowest, bounded;
    atomic_llong *sums; /* [S, G, num_limbs + 1], 0 at first: limbs of 26 bits, and how many values are too large */
} Limbs;

CLONES static int add_up_rows(const void *argument, int64_t first, int64_t end, char *room) {
    const Limbs *task = argument;
    double *rest = (double *)(void *)room, scale = ldexp(1, -(int)(task->lowest + 26 * (task->num_limbs - 1)));
    double top = task->bounded ? INFINITY : ldexp(1, (int)(task->lowest + 26 * task->num_limbs));
    for (int64_t sum = 0; sum < task->num_sums * task->groups; sum++) {
        atomic_llong *sums = task->sums + sum * (task->num_limbs + 1);
        const double *values = task->values + sum / task->groups * task->num_rows * task->groups + sum % task->groups;
        for (int64_t start = first; start < end; start += TILE) {
            int64_t count = smaller(TILE, end - start), too_large = 0;
            for (int64_t i = 0; i < count; i++) {
                double value = values[(start + i) * task->groups];
                rest[i] = value <= top ? value * scale : 0;
                too_large += !(value <= top);
            }
            for (int64_t limb = 0; limb < task->num_limbs; limb++) {
                uint64_t added = 0, bits;
                for (int64_t i = 0; i < count; i++) {
                    double whole = trunc(rest[i]), shifted = whole + 0x1.8p52; /* its last bits are the whole number, */
                    memcpy(&bits, &shifted, sizeof bits);
                    added += bits - 0x4338000000000000; /* below 0, too, less those of 0x1.8p52 */
                    rest[i] = (rest[i] - whole) * 0x1p26;
                }
                atomic_fetch_add(&sums[limb], (int64_t)added);
            }
            atomic_fetch_add(&sums[task->num_limbs], too_large);
        }
    }
    return DONE;
}

int tailmetrics_add_up(const Limbs *task, int64_t threads) {
    double cost = 1.0 * (double)(task->num_sums * task->groups * (task->num_limbs + 1));
    return run(add_up_rows, task, task->num_rows, sizeof(double) * TILE, cost, threads);
}

#else /* ---- The half of the file that is compiled for each type of REAL ---- */

/* Return some scores of a row; those of two bytes are written to the room. */
INLINE const REAL *OF(read)(const Scores *scores, int64_t row, int64_t first, int64_t count, REAL *room) {
    int64_t start = row * scores->row_stride + first;
    const uint16_t *halves = (const uint16_t *)scores->data + start;
    if (scores->type >= SINGLE)
        return (const REAL *)scores->data + start;
    for (int64_t i = 0; i < count; i++)
        room[i] = scores->type == HALF ? from_half(halves[i]) : float_of((uint32_t)halves[i] << 16);
    return room;
}

/* A whole number that ascends from the best score to the worst: NaN, inf, ..., -inf. 0 and -0 are the same. */
INLINE KEY OF(key_of)(REAL score) {
    KEY bits;
    REAL one_zero = score + 0;
    memcpy(&bits, &one_zero, sizeof bits);
    return score != score ? 0 : bits & SIGN ? bits : ~(bits | SIGN);
}

INLINE REAL OF(score_of)(KEY key) {
    KEY bits = key & SIGN ? key : ~(key | SIGN);
    REAL score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* A key that k to k + slack of the keys reach, or, where equal ones leave no such key, the least that k reach.
   Halving an interval of keys takes few passes, each without a branch. */
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

/* What a thread sorts with, and reads scores into. */
typedef struct { KEY *keys, *other_keys; uint32_t *ids, *other_ids; REAL *tile; } OF(Room);

static OF(Room) OF(room_for)(int64_t depth, int64_t width, char *room, size_t *used) {
    int64_t sorted = larger(4 * RUN, smaller(6 * depth + TILE, width));
    OF(Room) parts = {.keys = part(room, used, sorted, sizeof(KEY))};
    parts.other_keys = part(room, used, sorted, sizeof(KEY));
    parts.ids = part(room, used, sorted, sizeof(uint32_t));
    parts.other_ids = part(room, used, sorted, sizeof(uint32_t));
    parts.tile = part(room, used, smaller(TILE, width), sizeof(REAL));
    return parts;
}

INLINE void OF(copy_back)(const OF(Room) *room, int64_t count) {
    memcpy(room->keys, room->other_keys, sizeof(KEY) * (size_t)count);
    memcpy(room->ids, room->other_ids, sizeof(uint32_t) * (size_t)count);
}

/* Sort keys, ascending, and their ids along with them; equal keys stay in their order. */
INLINE void OF(sort)(const OF(Room) *room, int64_t count) {
    KEY *keys = room->keys;
    uint32_t *ids = room->ids, counts[sizeof(KEY)][256]; /* by digits of eight bits, the last one first */
    if (count <= 128) { /* few, which takes less time than to count digits: by what is before each of them */
        for (KEY i = 0; i < (KEY)count; i++) {
            KEY place = 0, key = keys[i];
            for (KEY j = 0; j < (KEY)count; j++)
                place += (keys[j] < key) | ((keys[j] == key) & (j < i));
            room->other_keys[place] = key;
            room->other_ids[place] = ids[i];
        }
        OF(copy_back)(room, count);
        return;
    }
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < count; i++)
        for (size_t byte = 0; byte < sizeof(KEY); byte++)
            counts[byte][keys[i] >> 8 * byte & 255]++;
    for (size_t byte = 0; byte < sizeof(KEY); byte++) {
        uint32_t *starts = counts[byte], start = 0;
        if (starts[keys[0] >> 8 * byte & 255] == count) /* all have the same digit */
            continue;
        for (int digit = 0; digit < 256; digit++) {
            uint32_t with_digit = starts[digit];
            starts[digit] = start;
            start += with_digit;
        }
        for (int64_t i = 0; i < count; i++) {
            uint32_t place = starts[keys[i] >> 8 * byte & 255]++;
            room->other_keys[place] = keys[i];
            room->other_ids[place] = ids[i];
        }
        OF(copy_back)(room, count);
    }
}

/* Append the scores above the bar in their order, and NaN; all where the bar is NaN. Return how many there are.
   They are `count` scores of a row from `first` on, and stand in `tile`. */
INLINE int64_t OF(collect)(const Scores *scores, int64_t row, int64_t first, int64_t count, const REAL *tile, REAL bar,
    KEY *keys, uint32_t *ids) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i += RUN) {
        int64_t together = smaller(RUN, count - i);
        uint8_t flags[RUN] = {0};
        int any = 0;
        fetch_next(scores, row, first + i, together);
        for (int64_t j = 0; j < together; j++)
            any |= !(tile[i + j] <= bar);
        if (!any)
            continue;
        for (int64_t j = 0; j < together; j++)
            flags[j] = !(tile[i + j] <= bar);
        for (uint64_t bits = bits_of(flags); bits; bits &= bits - 1) {
            int64_t place = i + __builtin_ctzll(bits);
            keys[found] = OF(key_of)(tile[place]);
            ids[found++] = (uint32_t)(first + place);
        }
    }
    return found;
}

/* A score that at least `depth` scores of a row from `start` on are above, seldom many more of those that are read; NaN
   where all are -inf. It is the next one below the maxima of so many groups of scores, found without a branch. */
INLINE REAL OF(bar_of)(
    const Scores *scores, int64_t row, int64_t start, int64_t depth, const OF(Room) *parts) {
    int64_t groups = RUN;
    while (groups < 3 * depth)
        groups *= 2;
    int64_t reach = start ? TILE : smaller(larger(128 * depth, 2048), larger(65536, 3 * groups));
    int64_t end = smaller(scores->width, start + reach), step = smaller(groups, TILE);
    REAL *maxima = (REAL *)parts->other_keys; /* which have the size of scores */
    for (int64_t i = 0; i < groups; i++)
        maxima[i] = -INFINITY;
    for (int64_t first = start; first < end; first += TILE) {
        int64_t count = smaller(TILE, end - first);
        const REAL *tile = OF(read)(scores, row, first, count, parts->tile);
        for (int64_t at = 0; at < count; at += step) {
            REAL *here = maxima + ((first + at) & (groups - 1));
            for (int64_t i = at; i < smaller(at + step, count); i++)
                here[i - at] = tile[i] > here[i - at] ? tile[i] : here[i - at];
        }
    }
    KEY *keys = parts->other_keys;
    for (int64_t i = 0; i < groups; i++)
        keys[i] = OF(key_of)(maxima[i]);
    REAL bar = OF(score_of)(OF(kth)(keys, groups, depth, depth / 16) + 1); /* the next lower number; NaN for -inf */
    return bar > -FLT_MIN && bar < FLT_MIN ? -FLT_MIN : bar; /* a processor may be told to take subnormal numbers for 0 */
}

/* Collect what is above a bar, which rises to the worst of the best so far whenever twice as many are collected. Labels
   that follow have higher ids, so that an equal score loses. */
CLONES static int OF(top_k_rows)(const void *argument, int64_t first_row, int64_t end_row, char *room) {
    const TopK *task = argument;
    int64_t depth = task->depth, width = task->scores.width;
    size_t used = 0;
    OF(Room) parts = OF(room_for)(depth, width, room, &used);
    KEY *keys = parts.keys;
    uint32_t *ids = parts.ids;
    int64_t seen = 0;
    for (int64_t row = first_row; row < end_row; row++) {
        /* of a narrow row most scores would be above a first bar */
        REAL bar = width >= 8 * depth + 16 ? OF(bar_of)(&task->scores, row, 0, depth, &parts) : (REAL)NAN;
        int64_t found = 0, ascends = 0;
        for (int64_t first = 0; first < width; first += TILE) {
            int64_t count = smaller(TILE, width - first);
            REAL ahead = bar; /* where scores ascend, all of the tile may be above it */
            if (ascends)
                ahead = OF(bar_of)(&task->scores, row, first, depth, &parts);
            bar = ahead > bar ? ahead : bar;
            const REAL *tile = OF(read)(&task->scores, row, first, count, parts.tile);
            found += OF(collect)(&task->scores, row, first, count, tile, bar, keys + found, ids + found);
            if (found >= 2 * depth || first + TILE >= width) {
                OF(sort)(&parts, found); /* equal scores stay in the order of their labels */
                bar = OF(score_of)(keys[depth - 1]);
                ascends |= found >= 4 * depth;
                found = depth;
            }
        }
        REAL *values = (REAL *)task->values + row * depth;
        for (int64_t i = 0; i < depth; i++)
            values[i] = OF(score_of)(keys[i]);
        for (int64_t i = 0; i < task->k; i++)
            task->ids[row * task->k + i] = ids[i];
        for (int64_t i = 1; i < depth; i++)
            seen |= !(values[i - 1] > values[i]);
        seen |= values[0] != values[0] || values[task->k - 1] == -INFINITY ? 2 : 0;
    }
    atomic_fetch_or(task->found, seen);
    return DONE;
}

int OF(tailmetrics_top_k)(const TopK *task, int64_t threads) {
    double cost = 0.3 * (double)task->scores.width + 20.0 * (double)task->depth + 500;
    size_t room = 0;
    OF(room_for)(task->depth, task->scores.width, NULL, &room);
    return run(OF(top_k_rows), task, task->scores.num_rows, room, cost, threads);
}

/* The least key of each group of labels of a row. Neighbours are often of one group, and a step would wait for the one
   before it: so many parts of the row are read side by side, each with least keys of its own. */
INLINE void OF(least_keys)(const Largest *task, const KEY *keys, KEY *least, int parts) {
    const int32_t *groups = task->groups;
    int64_t num = task->num_groups, width = task->scores.width, reach = width / parts;
    for (int64_t i = 0; i < parts * num; i++)
        least[i] = OF(key_of)(-INFINITY);
    for (int64_t i = 0; i < reach; i++)
        for (int part = 0; part < parts; part++) {
            KEY key = keys[part * reach + i], *of_group = least + part * num + groups[part * reach + i];
            *of_group = key < *of_group ? key : *of_group;
        }
    for (int64_t i = parts * reach; i < width; i++)
        least[groups[i]] = keys[i] < least[groups[i]] ? keys[i] : least[groups[i]];
    for (const KEY *of_part = least + num; of_part < least + parts * num; of_part += num)
        for (int64_t i = 0; i < num; i++)
            least[i] = of_part[i] < least[i] ? of_part[i] : least[i];
}

CLONES static int OF(largest_rows)(const void *argument, int64_t first_row, int64_t end_row, char *room) {
    const Largest *task = argument;
    int64_t width = task->scores.width;
    KEY *keys = (KEY *)(void *)room, *least = keys + width;
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
    size_t room = sizeof(REAL) * (size_t)(task->scores.width + larger(task->scores.width, task->num_groups));
    return run(OF(largest_rows), task, task->scores.num_rows, room, (double)task->scores.width + 100, threads);
}

/* Count what is above each wanted label of a row, and equal: a tile at a time, once for each of them. */
CLONES static int OF(count_rows)(const void *argument, int64_t first_row, int64_t end_row, char *room) {
    const Counts *task = argument;
    int64_t width = task->scores.width, tiles = (width + TILE - 1) / TILE;
    for (int64_t number = first_row * tiles; number < end_row * tiles; number++) {
        int64_t row = number / tiles, first = number % tiles * TILE, count = smaller(TILE, width - first);
        const REAL *scores = OF(read)(&task->scores, row, first, count, (REAL *)(void *)room);
        for (int64_t t = task->starts[row]; t < task->starts[row + 1]; t++) {
            int64_t place = task->wanted[t] - first, lower = smaller(place, count), before = 0;
            REAL own = (REAL)task->own[t]; /* of NaN nothing is above or equal */
            KEY above = 0, reached = 0;
            for (int64_t i = 0; i < count; i++) {
                above += scores[i] > own;
                reached += scores[i] >= own;
            }
            if (reached - above > (place >= 0 && place < count && scores[place] == own)) /* others are equal */
                for (int64_t i = 0; i < lower; i++)
                    before += scores[i] == own;
            task->above[t] += above;
            task->equal[t] += reached - above;
            task->before[t] += before;
        }
    }
    return DONE;
}

int OF(tailmetrics_rank_counts)(const Counts *task, int64_t threads) {
    double per_row = (double)task->starts[task->scores.num_rows] / (double)task->scores.num_rows;
    double cost = (double)task->scores.width * (0.2 + 0.1 * per_row) + 100;
    return run(OF(count_rows), task, task->scores.num_rows, sizeof(REAL) * TILE, cost, threads);
}

#endif
