/* The steps of a ranking on the CPU that read much: each function takes rows in blocks over threads of its own.

Called by native.py through ctypes, which gives Python's lock away for the whole of a call. Nothing is kept from call to
call. A task holds addresses, sizes and distances of two rows in elements, eight bytes each; columns lie side by side.
Threads are those of POSIX: an OpenMP run time beside that of torch could hang.

Rows are of N, labels of L, places of a list of K, relevant labels of a row of M, buckets of G, cells of hits of W.
The lower part of this file is compiled twice, for float and for double, by including itself. */
#ifndef REAL
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(void *) == 8, "tasks come as words of 64 bits");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "masks are read as little-endian words");
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES /* elsewhere the processor that the compiler aims at is all there is */
#endif
#define INLINE static inline __attribute__((always_inline)) /* into each of the clones */

enum { DONE, NO_MEMORY, NO_SUCH_LABEL };           /* what a function returns */
enum { HALF, BRAIN, SINGLE, DOUBLE };              /* types of scores */
enum { LABELS, MASK, SINGLE_GAINS, DOUBLE_GAINS }; /* forms of a target */
static const int64_t NOT_RANKED = (int64_t)1 << 62;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- Rows over threads ---- */

#define MOST_THREADS 256
#ifndef BLOCK /* tests make both small */
#define WORTH_A_THREAD 200000 /* nanoseconds: to start and to join a thread takes 20,000 to 50,000 */
#define BLOCK 50000           /* nanoseconds: so that no thread waits long for the last block of another */
#endif

typedef int Rows(const void *task, int64_t first, int64_t end, void *room);
typedef struct {
    Rows *rows;
    const void *task;
    int64_t num_rows, block;
    size_t room; /* bytes, all 0 at first, that each thread needs beside its task */
    atomic_llong next;
    atomic_int code;
} Job;

/* Take blocks of rows until there are no more; a thread that gets no memory takes none. */
static void *take_blocks(void *argument)
{
    Job *job = argument;
    void *room = calloc(1, job->room + 64);
    while (room && atomic_load(&job->code) == DONE) {
        int64_t first = atomic_fetch_add(&job->next, job->block);
        if (first >= job->num_rows)
            break;
        int code = job->rows(job->task, first, smaller(first + job->block, job->num_rows), room);
        if (code)
            atomic_store(&job->code, code);
    }
    free(room);
    return NULL;
}

/* Run a task on up to so many threads; a row is estimated to take so many nanoseconds. */
static int run(Rows *rows, const void *task, int64_t num_rows, size_t room, double cost, int64_t threads)
{
    Job job = {.rows = rows, .task = task, .num_rows = num_rows, .room = room, .block = (int64_t)(BLOCK / cost) + 1};
    pthread_t started[MOST_THREADS];
    double worth = cost * (double)num_rows / WORTH_A_THREAD;
    int64_t others = 0, wanted = smaller(smaller(threads, MOST_THREADS), worth < MOST_THREADS ? (int64_t)worth : threads);
    while (others + 1 < wanted && !pthread_create(&started[others], NULL, take_blocks, &job))
        others++; /* where no more can be had, fewer do it all */
    take_blocks(&job);
    while (others)
        pthread_join(started[--others], NULL);
    int code = atomic_load(&job.code);
    return code ? code : atomic_load(&job.next) < num_rows ? NO_MEMORY : DONE;
}

/* Part of a thread's room, at an address that any type may have. */
INLINE void *part(char **room, size_t bytes)
{
    char *here = (char *)(((uintptr_t)*room + 63) & ~(uintptr_t)63);
    *room = here + bytes;
    return here;
}
#define ROOM(type, count) (sizeof(type) * (size_t)(count) + 64)

/* ---- Scores ---- */

#define TILE 4096 /* scores read together: 16 or 32 KB, which the first cache holds between two looks at them */
#define MANY 64   /* wanted labels of a row from which sorting the row is faster than a look at it for each of them */

typedef struct { const void *data; int64_t type, row_stride, num_rows, width; } Scores;
typedef struct {
    Scores scores;
    int64_t k, depth; /* depth is k, or one more, which shows whether the cut falls inside a tie */
    void *values;     /* [N, depth], float or double */
    int64_t *ids;     /* [N, k] */
    atomic_llong *tied; /* becomes 1 if a row has equal values or NaN */
} TopK;
typedef struct {
    Scores scores;                    /* of labels from `first` on */
    const int64_t *starts, *wanted;   /* [N + 1], [T]; -1 for none */
    const double *own;                /* [T], the scores of the wanted labels, or NULL: they are all in `scores` */
    int64_t first, most;              /* `most` wanted labels are in a row */
    int64_t *above, *before, *equal;  /* [T] */
} Counts;

INLINE float from_half(uint16_t half)
{
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13, exponent = bits & 0x0f800000, small = bits + 0x38800000;
    float number;
    memcpy(&number, &small, 4);
    number -= 0x1p-14f; /* a subnormal number has the exponent of the least normal one */
    memcpy(&small, &number, 4);
    bits = exponent == 0 ? small : bits + (exponent == 0x0f800000 ? 0x70000000 : 0x38000000);
    bits |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&number, &bits, 4);
    return number;
}

INLINE const float *real_float(const Scores *scores, int64_t row, int64_t first, int64_t count, float *room)
{
    int64_t start = row * scores->row_stride + first;
    const uint16_t *halves = (const uint16_t *)scores->data + start;
    if (scores->type == SINGLE)
        return (const float *)scores->data + start;
    for (int64_t i = 0; scores->type == HALF && i < count; i++)
        room[i] = from_half(halves[i]);
    for (int64_t i = 0; scores->type == BRAIN && i < count; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(room + i, &bits, 4);
    }
    return room;
}

INLINE const double *real_double(const Scores *scores, int64_t row, int64_t first, int64_t count, double *room)
{
    (void)count, (void)room;
    return (const double *)scores->data + row * scores->row_stride + first;
}

INLINE uint64_t bits_of(const uint8_t *flags) /* 64 bytes of 0 and 1 as 64 bits */
{
    uint64_t bits = 0, word;
    for (int i = 0; i < 8; i++) {
        memcpy(&word, flags + 8 * i, 8);
        bits |= (word * 0x0102040810204080) >> 56 << 8 * i;
    }
    return bits;
}

/* Names of what is compiled twice: OF(sort) is sort_float, and sort_double. */
#define JOIN2(name, real) name##_##real
#define JOIN(name, real) JOIN2(name, real)
#define OF(name) JOIN(name, REAL)
#define REAL float
#define INTEGER int32_t
#define UNSIGNED uint32_t
#define LEAST INT32_MIN
#include __FILE__
#undef REAL
#undef INTEGER
#undef UNSIGNED
#undef LEAST
#define REAL double
#define INTEGER int64_t
#define UNSIGNED uint64_t
#define LEAST INT64_MIN
#include __FILE__

int tailmetrics_source(void) { return SOURCE; } /* which text the library was compiled of */

int tailmetrics_top_k(const TopK *task, int64_t threads)
{
    bool wide = task->scores.type == DOUBLE;
    double cost = 0.3 * (double)task->scores.width + 20.0 * (double)task->depth + 500;
    return run(wide ? top_k_rows_double : top_k_rows_float, task, task->scores.num_rows,
               wide ? top_k_room_double(task) : top_k_room_float(task), cost, threads);
}

int tailmetrics_rank_counts(const Counts *task, int64_t threads)
{
    bool wide = task->scores.type == DOUBLE;
    double per_row = (double)task->starts[task->scores.num_rows] / (double)task->scores.num_rows;
    double cost = (double)task->scores.width * (per_row < 50 ? 0.2 + 0.2 * per_row : 10) + 100;
    return run(wide ? count_rows_double : count_rows_float, task, task->scores.num_rows,
               wide ? count_room_double(task) : count_room_float(task), cost, threads);
}

/* ---- Labels: a small table of those of a row, by open addressing ---- */

typedef struct { int64_t *labels, *numbers; int shift; uint64_t last; } Table;

INLINE int bits_for(int64_t count)
{
    int bits = 3;
    while ((int64_t)1 << bits < 2 * count)
        bits++;
    return bits;
}

INLINE void clear(Table *table, int64_t count) /* for up to so many labels */
{
    int bits = bits_for(count);
    table->shift = 64 - bits;
    table->last = ((uint64_t)1 << bits) - 1;
    memset(table->labels, 0xff, sizeof(int64_t) << bits); /* -1: empty */
}

INLINE uint64_t slot_of(const Table *table, int64_t label) /* where a label >= 0 is, or could be put */
{
    uint64_t slot = (uint64_t)label * 0x9E3779B97F4A7C15 >> table->shift; /* 2^64 / golden ratio scatters well */
    while (table->labels[slot] != label && table->labels[slot] != -1)
        slot = (slot + 1) & table->last;
    return slot;
}

/* ---- Hits: the relevant labels that a list holds ---- */

typedef struct {
    const int64_t *ids; /* [N, K] */
    int64_t ids_stride, num_rows, length;
    const void *target; /* labels [T] or [N, M], or a matrix [N, L] */
    int64_t form, target_stride, target_width, most; /* `most` labels are wanted in a row */
    const int64_t *starts;                           /* [N + 1] of labels [T], or NULL */
    const double *gains;                             /* [T], or [N, M], or NULL */
    int64_t width, *ranks, *labels;                  /* [N, W] */
    double *out_gains;                               /* [N, W] or NULL */
} Hits;
typedef struct { int64_t count, width, *ranks, *labels; double *gains; } Cells; /* the W cells of one row */

INLINE Cells cells_at(int64_t row, int64_t width, int64_t *ranks, int64_t *labels, double *gains)
{
    return (Cells){0, width, ranks + row * width, labels + row * width, gains ? gains + row * width : NULL};
}

INLINE void put(Cells *cells, int64_t rank, int64_t label, double gain)
{
    if (cells->count >= cells->width)
        return;
    cells->ranks[cells->count] = rank;
    cells->labels[cells->count] = label;
    if (cells->gains)
        cells->gains[cells->count] = gain;
    cells->count++;
}

INLINE void fill_up(Cells *cells)
{
    while (cells->count < cells->width)
        put(cells, NOT_RANKED, -1, 0);
}

INLINE int hits_in_matrix(const Hits *task, const int64_t *ids, int64_t row, Cells *cells)
{
    for (int64_t place = 0; place < task->length; place++) {
        int64_t id = ids[place], cell = row * task->target_stride + id;
        if (id >= task->target_width)
            return NO_SUCH_LABEL;
        if (id < 0)
            continue;
        double gain = task->form == MASK           ? ((const uint8_t *)task->target)[cell]
                      : task->form == SINGLE_GAINS ? (double)((const float *)task->target)[cell]
                                                   : ((const double *)task->target)[cell];
        if (gain > 0)
            put(cells, place + 1, id, gain);
    }
    return DONE;
}

/* Put the wanted labels of a row into a table, and look up a list in one pass. */
INLINE void hits_in_list(const int64_t *ids, int64_t length, const int64_t *wanted, const double *gains, int64_t count,
                         Table *table, Cells *cells)
{
    int64_t left = 0;
    clear(table, count);
    for (int64_t i = 0; i < count; i++) {
        uint64_t slot = wanted[i] >= 0 ? slot_of(table, wanted[i]) : 0;
        if (wanted[i] < 0 || table->labels[slot] >= 0)
            continue;
        table->labels[slot] = wanted[i];
        table->numbers[slot] = i;
        left++;
    }
    for (int64_t place = 0; left && place < length; place++) {
        uint64_t slot = ids[place] >= 0 ? slot_of(table, ids[place]) : 0;
        if (ids[place] < 0 || table->labels[slot] < 0)
            continue;
        put(cells, place + 1, ids[place], gains ? gains[table->numbers[slot]] : 1);
        table->labels[slot] = -2; /* its first place counts, and the way to other labels stays open */
        left--;
    }
}

CLONES static int hit_rows(const void *argument, int64_t first, int64_t end, void *room)
{
    const Hits *task = argument;
    char *free_room = room;
    size_t bytes = sizeof(int64_t) << bits_for(task->most);
    Table table = {.labels = part(&free_room, bytes), .numbers = part(&free_room, bytes)};
    for (int64_t row = first; row < end; row++) {
        const int64_t *ids = task->ids + row * task->ids_stride;
        Cells cells = cells_at(row, task->width, task->ranks, task->labels, task->out_gains);
        if (task->form == LABELS) {
            int64_t start = task->starts ? task->starts[row] : row * task->target_width;
            int64_t count = task->starts ? task->starts[row + 1] - start : task->target_width;
            const int64_t *wanted = (const int64_t *)task->target + (task->starts ? start : row * task->target_stride);
            hits_in_list(ids, task->length, wanted, task->gains ? task->gains + start : NULL, count, &table, &cells);
        } else if (hits_in_matrix(task, ids, row, &cells)) {
            return NO_SUCH_LABEL;
        }
        fill_up(&cells);
    }
    return DONE;
}

int tailmetrics_hits(const Hits *task, int64_t threads)
{
    size_t room = 2 * ROOM(int64_t, (int64_t)1 << bits_for(task->most));
    double cost = 1.5 * (double)(task->length + task->most + task->width) + 30;
    return run(hit_rows, task, task->num_rows, room, cost, threads);
}

/* ---- Checks of lists ---- */

typedef struct {
    const int64_t *ids; /* [N, K] */
    int64_t ids_stride, num_rows, length;
    uint8_t *repeated; /* [N, K] or NULL: later places of an id */
    /* the lowest id; -1 - the highest; the first row with an id behind -1; the first that names an id twice */
    atomic_llong *found;
} Check;

INLINE void lower(atomic_llong *lowest, int64_t value)
{
    long long before = atomic_load(lowest);
    while (value < before && !atomic_compare_exchange_weak(lowest, &before, value)) {
    }
}

CLONES static int check_rows(const void *argument, int64_t first, int64_t end, void *room)
{
    const Check *check = argument;
    char *free_room = room;
    Table table = {.labels = part(&free_room, sizeof(int64_t) << bits_for(check->length))};
    for (int64_t row = first; row < end; row++) {
        const int64_t *ids = check->ids + row * check->ids_stride;
        uint8_t *repeated = check->repeated ? check->repeated + row * check->length : NULL;
        int64_t low = INT64_MAX, high = INT64_MIN;
        bool gap = false, twice = false;
        for (int64_t i = 0; i < check->length; i++) {
            low = smaller(low, ids[i]);
            high = larger(high, ids[i]);
        }
        for (int64_t i = 1; low < 0 && i < check->length; i++)
            gap |= ids[i - 1] < 0 && ids[i] >= 0;
        clear(&table, check->length);
        for (int64_t i = 0; i < check->length; i++) {
            uint64_t slot = ids[i] >= 0 ? slot_of(&table, ids[i]) : 0;
            bool again = ids[i] >= 0 && table.labels[slot] >= 0;
            twice |= again;
            if (repeated)
                repeated[i] = again;
            if (ids[i] >= 0)
                table.labels[slot] = ids[i];
        }
        lower(&check->found[0], low);
        lower(&check->found[1], ~high);
        lower(&check->found[2], gap ? row : INT64_MAX);
        lower(&check->found[3], twice ? row : INT64_MAX);
    }
    return DONE;
}

int tailmetrics_check_lists(const Check *task, int64_t threads)
{
    size_t room = ROOM(int64_t, (int64_t)1 << bits_for(task->length));
    return run(check_rows, task, task->num_rows, room, 2.5 * (double)task->length + 20, threads);
}

/* ---- Buckets ---- */

typedef struct { const void *table; int64_t bytes, num_labels, num_buckets; } Buckets; /* the bucket of each label */

INLINE int64_t bucket_of(const Buckets *buckets, int64_t label) /* num_buckets where there is no such label */
{
    return (uint64_t)label >= (uint64_t)buckets->num_labels ? buckets->num_buckets
           : buckets->bytes == 1                            ? ((const uint8_t *)buckets->table)[label]
           : buckets->bytes == 2                            ? ((const int16_t *)buckets->table)[label]
           : buckets->bytes == 4                            ? ((const int32_t *)buckets->table)[label]
                                                            : ((const int64_t *)buckets->table)[label];
}

typedef struct {
    const int64_t *ids; /* [N, D], or NULL: ranks stay those in the whole list */
    int64_t ids_stride, num_rows, depth;
    Buckets buckets;
    const int64_t *ranks, *labels; /* [N, W] of the hits */
    const double *gains;           /* [N, W] or NULL */
    int64_t width, new_width, *out_ranks, *out_labels; /* [N, G, new_width] */
    double *out_gains;
    int64_t *lengths; /* [N, G] */
} Within;

CLONES static int within_rows(const void *argument, int64_t first, int64_t end, void *room)
{
    const Within *task = argument;
    int64_t num_buckets = task->buckets.num_buckets;
    Cells *cells = room;
    for (int64_t row = first; row < end; row++) {
        int64_t *lengths = task->lengths + row * num_buckets, place = 0;
        memset(lengths, 0, sizeof(int64_t) * (size_t)num_buckets);
        for (int64_t g = 0; g < num_buckets; g++)
            cells[g] = cells_at(row * num_buckets + g, task->new_width, task->out_ranks, task->out_labels, task->out_gains);
        for (int64_t i = 0; i <= task->width; i++) {
            int64_t cell = row * task->width + i, rank = i < task->width ? task->ranks[cell] : NOT_RANKED, bucket;
            for (; place < smaller(rank, task->depth); place++) { /* count the list up to this hit, or to its end */
                int64_t id = task->ids[row * task->ids_stride + place];
                if (id < 0)
                    continue;
                if ((bucket = bucket_of(&task->buckets, id)) >= num_buckets)
                    return NO_SUCH_LABEL;
                lengths[bucket]++;
            }
            if (rank == NOT_RANKED || (task->ids && rank > task->depth))
                break;
            if ((bucket = bucket_of(&task->buckets, task->labels[cell])) >= num_buckets)
                return NO_SUCH_LABEL;
            put(&cells[bucket], task->ids ? lengths[bucket] : rank, task->labels[cell], task->gains ? task->gains[cell] : 1);
        }
        for (int64_t g = 0; g < num_buckets; g++)
            fill_up(&cells[g]);
    }
    return DONE;
}

int tailmetrics_within_buckets(const Within *task, int64_t threads)
{
    double cost = 1.5 * (double)task->depth + 2.0 * (double)(task->buckets.num_buckets * (task->new_width + 4)) + 30;
    return run(within_rows, task, task->num_rows, ROOM(Cells, task->buckets.num_buckets), cost, threads);
}

/* ---- Numbers of relevant labels ---- */

typedef struct {
    const void *target; /* labels [N, M], or a mask [N, L] */
    int64_t form, stride, num_rows, width;
    Buckets buckets; /* without a table: none */
    int64_t *counts; /* [N, G], or [N] */
} CountTrue;

/* 1 for each byte of a word that is not 0: a mask may be a view of other bytes. */
INLINE uint64_t ones(uint64_t word)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    return (((word & low) + low) | word) >> 7 & 0x0101010101010101;
}

CLONES static int count_true_rows(const void *argument, int64_t first, int64_t end, void *room)
{
    const CountTrue *task = argument;
    (void)room;
    for (int64_t row = first; row < end; row++) {
        const uint8_t *flags = (const uint8_t *)task->target + row * task->stride;
        int64_t count = 0, i = 0, end_of_words = task->width - task->width % 8;
        while (i < end_of_words) { /* bytes side by side in words, so many that none reaches 256 */
            uint64_t sums = 0, word;
            for (int64_t stop = smaller(end_of_words, i + 8 * 248); i < stop; i += 8) {
                memcpy(&word, flags + i, 8);
                sums += ones(word);
            }
            sums = (sums & 0x00ff00ff00ff00ff) + (sums >> 8 & 0x00ff00ff00ff00ff);
            count += (int64_t)(sums * 0x0001000100010001 >> 48);
        }
        for (; i < task->width; i++)
            count += flags[i] != 0;
        task->counts[row] = count;
    }
    return DONE;
}

INLINE bool count_label(const Buckets *buckets, int64_t label, int64_t *counts)
{
    int64_t bucket = bucket_of(buckets, label);
    if (bucket < buckets->num_buckets)
        counts[bucket]++;
    return bucket < buckets->num_buckets;
}

CLONES static int count_bucket_rows(const void *argument, int64_t first, int64_t end, void *room)
{
    const CountTrue *task = argument;
    bool known = true;
    (void)room;
    memset(task->counts + first * task->buckets.num_buckets, 0, sizeof(int64_t) * (size_t)((end - first) * task->buckets.num_buckets));
    for (int64_t row = first; row < end; row++) {
        int64_t *counts = task->counts + row * task->buckets.num_buckets;
        const uint8_t *flags = (const uint8_t *)task->target + row * task->stride;
        const int64_t *labels = (const int64_t *)task->target + row * task->stride;
        for (int64_t i = 0; task->form == LABELS && i < task->width; i++)
            known &= labels[i] < 0 || count_label(&task->buckets, labels[i], counts);
        for (int64_t i = 0; task->form == MASK && i < task->width; i += 8) { /* most words are 0 */
            uint64_t word = 0;
            if (i + 8 <= task->width)
                memcpy(&word, flags + i, 8);
            else
                memcpy(&word, flags + i, (size_t)(task->width - i));
            for (word = ones(word); word; word &= word - 1)
                known &= count_label(&task->buckets, i + __builtin_ctzll(word) / 8, counts);
        }
    }
    return known ? DONE : NO_SUCH_LABEL;
}

int tailmetrics_count_true(const CountTrue *task, int64_t threads)
{
    double cost = (task->form == MASK ? 0.15 : 1.5) * (double)task->width + 20;
    return run(task->buckets.table ? count_bucket_rows : count_true_rows, task, task->num_rows, 0, cost, threads);
}

#else /* ---- The half of the file that is compiled for each type of REAL ---- */

/* A whole number that ascends from the best score to the worst: NaN, inf, ..., -inf. 0 and -0 are the same. */
INLINE INTEGER OF(key)(REAL score)
{
    INTEGER bits;
    REAL one_zero = score + 0;
    memcpy(&bits, &one_zero, sizeof bits);
    bits = ~(bits ^ (bits >> (8 * sizeof bits - 1) & ~LEAST));
    return score != score ? LEAST : bits;
}

INLINE REAL OF(score_of)(INTEGER key)
{
    INTEGER bits = ~key;
    REAL score;
    bits ^= bits >> (8 * sizeof bits - 1) & ~LEAST;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* A key that k to k + slack of the keys reach, or, where equal ones leave no such key, the least that k reach.
   Halving an interval of keys takes few passes, each without a branch. */
INLINE INTEGER OF(kth)(const INTEGER *keys, int64_t count, int64_t k, int64_t slack)
{
    INTEGER low = keys[0], high = keys[0];
    for (int64_t i = 1; i < count; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    while (low < high) {
        INTEGER middle = (INTEGER)((UNSIGNED)low + ((UNSIGNED)high - (UNSIGNED)low) / 2), reached = 0;
        for (int64_t i = 0; i < count; i++)
            reached += keys[i] <= middle;
        if (reached < k) {
            low = middle + 1;
            continue;
        }
        high = middle;
        if (reached <= k + slack)
            break;
    }
    return high;
}

/* Keep the k best, of equal ones the first, in their order; return the worst key that is kept. */
INLINE INTEGER OF(shrink)(INTEGER *keys, uint32_t *ids, int64_t count, int64_t k)
{
    INTEGER bar = OF(kth)(keys, count, k, 0), worst = LEAST;
    int64_t kept = 0, equal = k;
    for (int64_t i = 0; i < count; i++)
        equal -= keys[i] < bar;
    for (int64_t i = 0; i < count; i++) {
        INTEGER key = keys[i];
        bool keep = key < bar || (key == bar && equal > 0);
        equal -= key == bar;
        keys[kept] = key;
        ids[kept] = ids[i];
        worst = keep && key > worst ? key : worst;
        kept += keep;
    }
    return worst;
}

/* Sort keys, ascending, and their ids along with them; equal keys stay in their order. Other two arrays give room. */
INLINE void OF(sort)(INTEGER **keys, uint32_t **ids, INTEGER **other_keys, uint32_t **other_ids, int64_t count)
{
    if (count <= 48) { /* by insertion */
        for (int64_t i = 1; i < count; i++) {
            INTEGER key = (*keys)[i];
            uint32_t id = (*ids)[i];
            int64_t place = i;
            for (; place > 0 && (*keys)[place - 1] > key; place--) {
                (*keys)[place] = (*keys)[place - 1];
                (*ids)[place] = (*ids)[place - 1];
            }
            (*keys)[place] = key;
            (*ids)[place] = id;
        }
        return;
    }
    uint32_t counts[sizeof(INTEGER)][256]; /* by digits of eight bits, the last one first */
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < count; i++) {
        UNSIGNED digits = (UNSIGNED)(*keys)[i] ^ (UNSIGNED)LEAST;
        for (size_t byte = 0; byte < sizeof digits; byte++)
            counts[byte][digits >> 8 * byte & 255]++;
    }
    for (size_t byte = 0; byte < sizeof(INTEGER); byte++) {
        uint32_t *starts = counts[byte], start = 0;
        UNSIGNED first = ((UNSIGNED)(*keys)[0] ^ (UNSIGNED)LEAST) >> 8 * byte & 255;
        if (starts[first] == count) /* all have the same digit */
            continue;
        for (int digit = 0; digit < 256; digit++) {
            uint32_t with_digit = starts[digit];
            starts[digit] = start;
            start += with_digit;
        }
        for (int64_t i = 0; i < count; i++) {
            UNSIGNED digits = (UNSIGNED)(*keys)[i] ^ (UNSIGNED)LEAST;
            uint32_t place = starts[digits >> 8 * byte & 255]++;
            (*other_keys)[place] = (*keys)[i];
            (*other_ids)[place] = (*ids)[i];
        }
        INTEGER *swapped = *keys;
        uint32_t *swapped_ids = *ids;
        *keys = *other_keys, *ids = *other_ids;
        *other_keys = swapped, *other_ids = swapped_ids;
    }
}

#define REACHES(score) (uint8_t)(strict ? !((score) <= bar) : !((score) < bar)) /* true of NaN, and where the bar is NaN */

/* Append the scores that reach the bar, or exceed it, in their order; return how many there are. */
INLINE int64_t OF(collect)(const REAL *scores, int64_t count, int64_t first, REAL bar, bool strict, INTEGER *keys,
                           uint32_t *ids)
{
    int64_t found = 0, i = 0;
    if (bar != bar) {
        for (; i < count; i++) {
            keys[i] = OF(key)(scores[i]);
            ids[i] = (uint32_t)(first + i);
        }
        return count;
    }
    for (; i + 64 <= count; i += 64) {
        uint8_t flags[64];
        int any = 0;
        for (int j = 0; j < 64; j++)
            any |= REACHES(scores[i + j]);
        if (!any)
            continue;
        for (int j = 0; j < 64; j++)
            flags[j] = REACHES(scores[i + j]);
        for (uint64_t bits = bits_of(flags); bits; bits &= bits - 1) {
            int64_t place = i + __builtin_ctzll(bits);
            keys[found] = OF(key)(scores[place]);
            ids[found++] = (uint32_t)(first + place);
        }
    }
    for (; i < count; i++)
        if (REACHES(scores[i])) {
            keys[found] = OF(key)(scores[i]);
            ids[found++] = (uint32_t)(first + i);
        }
    return found;
}

static int64_t OF(groups)(int64_t depth) { return (3 * depth + 15) / 16 * 16; }

/* A score that at least `depth` scores of the row reach, seldom many more of its first ones; NaN for none.
   Each of that many groups of scores has its maximum there, and the maxima are found without a branch. */
INLINE REAL OF(first_bar)(const TopK *task, int64_t row, REAL *tile, REAL *maxima, INTEGER *keys)
{
    int64_t groups = OF(groups)(task->depth), place = 0;
    int64_t end = smaller(task->scores.width, smaller(larger(128 * task->depth, 2048), larger(65536, 3 * groups)));
    for (int64_t i = 0; i < groups; i++)
        maxima[i] = -INFINITY;
    for (int64_t first = 0; first < end; first += TILE) {
        int64_t count = smaller(TILE, end - first), i = 0;
        const REAL *scores = OF(real)(&task->scores, row, first, count, tile);
        while (i < count) {
            int64_t together = smaller(groups - place, count - i);
            for (int64_t j = 0; j < together; j++)
                maxima[place + j] = scores[i + j] > maxima[place + j] ? scores[i + j] : maxima[place + j];
            i += together;
            place = place + together == groups ? 0 : place + together;
        }
    }
    for (int64_t i = 0; i < groups; i++)
        keys[i] = OF(key)(maxima[i]);
    REAL bar = OF(score_of)(OF(kth)(keys, groups, task->depth, task->depth / 16));
    return bar > -INFINITY ? bar : NAN;
}

static int64_t OF(candidates)(const TopK *task) /* so many at once, or maxima of groups */
{
    return larger(smaller(2 * task->depth + TILE, task->scores.width), OF(groups)(task->depth));
}

static size_t OF(top_k_room)(const TopK *task)
{
    int64_t most = OF(candidates)(task);
    size_t of_tile = ROOM(REAL, smaller(TILE, task->scores.width)) + ROOM(REAL, OF(groups)(task->depth));
    return 2 * ROOM(INTEGER, most) + 2 * ROOM(uint32_t, most) + of_tile;
}

CLONES static int OF(top_k_rows)(const void *argument, int64_t first_row, int64_t end_row, void *room)
{
    const TopK *task = argument;
    int64_t depth = task->depth, width = task->scores.width, most = OF(candidates)(task);
    char *free_room = room;
    INTEGER *keys = part(&free_room, sizeof(INTEGER) * (size_t)most);
    INTEGER *other_keys = part(&free_room, sizeof(INTEGER) * (size_t)most);
    uint32_t *ids = part(&free_room, sizeof(uint32_t) * (size_t)most);
    uint32_t *other_ids = part(&free_room, sizeof(uint32_t) * (size_t)most);
    REAL *tile = part(&free_room, sizeof(REAL) * (size_t)smaller(TILE, width));
    REAL *maxima = part(&free_room, sizeof(REAL) * (size_t)OF(groups)(depth));
    bool tied = false;
    for (int64_t row = first_row; row < end_row; row++) {
        bool strict = false;
        /* of a narrow row, most scores would reach it */
        REAL bar = width >= 8 * depth ? OF(first_bar)(task, row, tile, maxima, keys) : (REAL)NAN;
        int64_t found = 0;
        for (int64_t first = 0; first < width; first += TILE) {
            int64_t count = smaller(TILE, width - first);
            const REAL *scores = OF(real)(&task->scores, row, first, count, tile);
            found += strict ? OF(collect)(scores, count, first, bar, true, keys + found, ids + found)
                            : OF(collect)(scores, count, first, bar, false, keys + found, ids + found);
            if (found >= 2 * depth) {
                bar = OF(score_of)(OF(shrink)(keys, ids, found, depth));
                found = depth;
                strict = true; /* what follows has higher ids, so that an equal score loses */
            }
        }
        if (found > depth)
            OF(shrink)(keys, ids, found, depth);
        OF(sort)(&keys, &ids, &other_keys, &other_ids, depth);
        REAL *values = (REAL *)task->values + row * depth;
        for (int64_t i = 0; i < depth; i++)
            values[i] = OF(score_of)(keys[i]);
        for (int64_t i = 0; i < task->k; i++)
            task->ids[row * task->k + i] = ids[i];
        for (int64_t i = 1; i < depth; i++)
            tied |= !(values[i - 1] > values[i]);
    }
    if (tied)
        atomic_store(task->tied, 1);
    return DONE;
}

static size_t OF(count_room)(const Counts *task)
{
    int64_t width = task->scores.width, sorted = task->most > MANY ? width : 0;
    return ROOM(REAL, smaller(TILE, width)) + 2 * ROOM(INTEGER, sorted) + 2 * ROOM(uint32_t, sorted);
}

INLINE REAL OF(own)(const Counts *task, int64_t row, int64_t t) /* the score of a wanted label */
{
    REAL score;
    return task->own ? (REAL)task->own[t] : *OF(real)(&task->scores, row, task->wanted[t] - task->first, 1, &score);
}

/* Count what is above each wanted label of a row, and equal: a tile at a time, once for each of them. */
INLINE void OF(count_few)(const Counts *task, int64_t row, REAL *tile)
{
    for (int64_t first = 0; first < task->scores.width; first += TILE) {
        int64_t count = smaller(TILE, task->scores.width - first);
        const REAL *scores = OF(real)(&task->scores, row, first, count, tile);
        for (int64_t t = task->starts[row]; t < task->starts[row + 1]; t++) {
            int64_t place = task->wanted[t] - task->first - first, lower = smaller(place, count), before = 0;
            REAL own = task->wanted[t] < 0 ? (REAL)NAN : OF(own)(task, row, t); /* NaN: nothing is above or equal */
            INTEGER above = 0, reached = 0;
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
}

INLINE int64_t OF(first_reaching)(const INTEGER *keys, int64_t count, INTEGER key) /* the first that is not less */
{
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

CLONES static int OF(count_rows)(const void *argument, int64_t first_row, int64_t end_row, void *room)
{
    const Counts *task = argument;
    int64_t width = task->scores.width;
    char *free_room = room;
    REAL *tile = part(&free_room, sizeof(REAL) * (size_t)smaller(TILE, width));
    size_t of_keys = task->most > MANY ? (size_t)width : 0;
    INTEGER *keys = part(&free_room, sizeof(INTEGER) * of_keys), *other_keys = part(&free_room, sizeof(INTEGER) * of_keys);
    uint32_t *ids = part(&free_room, sizeof(uint32_t) * of_keys), *other_ids = part(&free_room, sizeof(uint32_t) * of_keys);
    for (int64_t row = first_row; row < end_row; row++) {
        int64_t begin = task->starts[row], end = task->starts[row + 1];
        for (int64_t t = begin; t < end; t++) {
            task->above[t] = task->before[t] = task->equal[t] = 0;
            if (!task->own && task->wanted[t] - task->first >= width)
                return NO_SUCH_LABEL;
        }
        if (end - begin <= MANY) {
            OF(count_few)(task, row, tile);
            continue;
        }
        for (int64_t first = 0; first < width; first += TILE) {
            int64_t count = smaller(TILE, width - first);
            OF(collect)(OF(real)(&task->scores, row, first, count, tile), count, first, (REAL)NAN, true, keys + first, ids + first);
        }
        OF(sort)(&keys, &ids, &other_keys, &other_ids, width);
        int64_t not_numbers = OF(first_reaching)(keys, width, LEAST + 1);
        for (int64_t t = begin; t < end; t++) {
            INTEGER key = task->wanted[t] < 0 ? LEAST : OF(key)(OF(own)(task, row, t));
            if (key == LEAST)
                continue;
            int64_t low = OF(first_reaching)(keys, width, key), high = OF(first_reaching)(keys, width, key + 1), place = low;
            while (place < high && ids[place] < task->wanted[t] - task->first) /* of equal ones that are ascending */
                place++;
            task->above[t] = low - not_numbers;
            task->equal[t] = high - low;
            task->before[t] = place - low;
        }
    }
    return DONE;
}

#endif
