// The worker pool of a device.
//
// Workers JOIN a job: the caller publishes it, workers that happen to be awake
// enter by a compare-and-swap, and everybody, the caller included, claims chunks
// from one counter until none is left. The caller then closes the door and waits
// only for the workers that entered. A worker that the operating system has put
// aside therefore costs nothing; with a fixed share per worker, one descheduled
// worker would hold up every operation (on a busy two-core machine that made two
// threads slower than one).
//
// A worker looks for the next job for some tens of microseconds, which is longer
// than the gap between two operations of a network, and then sleeps in the kernel.
// Jobs of one chunk, and pools of one thread, run on the caller and touch nothing.
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ volatile("yield")
#else
#define cpu_relax() ((void)0)
#endif

enum { SPINS_BEFORE_SLEEP = 2000, SPINS_BEFORE_YIELD = 20000 };

// The state word: job number << 16 | open << 15 | workers inside. A worker that
// holds an old word cannot enter, since the job number has moved on.
#define DOOR 0x8000u
#define INSIDE 0x7fffu
#define JOB_SHIFT 16

struct av_pool {
	_Atomic uint32_t state;
	char pad0[60];
	_Atomic int64_t next; // the next chunk to claim
	char pad1[56];
	av_task task; // written while the door is closed and nobody is inside
	const void *arg;
	int64_t chunks;
	_Atomic uint32_t bell; // rung for every job; what sleepers wait on
	_Atomic int sleepers;
	_Atomic int closing;
	int threads, started;
	pthread_t *ids;
#if !defined(__linux__)
	pthread_mutex_t mutex;
	pthread_cond_t cond;
#endif
};

typedef struct {
	av_pool *pool;
	int id;
} worker_arg;

#if defined(__linux__)
static void sleep_until_rung(av_pool *p, uint32_t heard) {
	syscall(SYS_futex, &p->bell, FUTEX_WAIT_PRIVATE, heard, 0, 0, 0);
}
static void ring(av_pool *p) {
	atomic_fetch_add(&p->bell, 1);
	if (atomic_load(&p->sleepers) > 0) syscall(SYS_futex, &p->bell, FUTEX_WAKE_PRIVATE, 1 << 30, 0, 0, 0);
}
#else
static void sleep_until_rung(av_pool *p, uint32_t heard) {
	pthread_mutex_lock(&p->mutex);
	while (atomic_load(&p->bell) == heard) pthread_cond_wait(&p->cond, &p->mutex);
	pthread_mutex_unlock(&p->mutex);
}
static void ring(av_pool *p) {
	pthread_mutex_lock(&p->mutex);
	atomic_fetch_add(&p->bell, 1);
	pthread_mutex_unlock(&p->mutex);
	pthread_cond_broadcast(&p->cond);
}
#endif

static void claim_chunks(av_pool *p, int worker) {
	int64_t c;
	while ((c = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->chunks) p->task(p->arg, c, worker);
}

static int is_new_job(uint32_t state, uint32_t last) { return (state & DOOR) && (state >> JOB_SHIFT) != last; }

static void *worker_main(void *v) {
	worker_arg w = *(worker_arg *)v;
	free(v);
	av_pool *p = w.pool;
	uint32_t last = 0; // the job joined last: each is joined once
	int spins = 0;
	while (!atomic_load_explicit(&p->closing, memory_order_acquire)) {
		uint32_t s = atomic_load_explicit(&p->state, memory_order_acquire);
		if (is_new_job(s, last)) {
			if (!atomic_compare_exchange_weak(&p->state, &s, s + 1)) continue;
			last = s >> JOB_SHIFT;
			claim_chunks(p, w.id);
			atomic_fetch_sub_explicit(&p->state, 1, memory_order_release);
			spins = 0;
		} else if (++spins < SPINS_BEFORE_SLEEP) {
			cpu_relax();
		} else {
			atomic_fetch_add(&p->sleepers, 1);
			uint32_t heard = atomic_load(&p->bell); // read before the last look at the state
			if (!is_new_job(atomic_load(&p->state), last) && !atomic_load(&p->closing)) sleep_until_rung(p, heard);
			atomic_fetch_sub(&p->sleepers, 1);
			spins = 0;
		}
	}
	return NULL;
}

void av_pool_run(av_pool *p, int64_t chunks, av_task task, const void *arg) {
	if (p->started == 0 || chunks <= 1) {
		for (int64_t c = 0; c < chunks; c++) task(arg, c, 0);
		return;
	}
	p->task = task;
	p->arg = arg;
	p->chunks = chunks;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	uint32_t job = (atomic_load(&p->state) >> JOB_SHIFT) + 1;
	if ((job & 0xffff) == 0) job = 1; // 0 is what a fresh worker has "joined last"
	atomic_store(&p->state, job << JOB_SHIFT | DOOR);
	ring(p);
	claim_chunks(p, 0);
	uint32_t s = atomic_fetch_and(&p->state, ~DOOR) & ~DOOR;
	for (int spins = 0; s & INSIDE; s = atomic_load_explicit(&p->state, memory_order_acquire)) {
		if (++spins < SPINS_BEFORE_YIELD) cpu_relax();
		else sched_yield();
	}
}

av_pool *av_pool_open(int threads) {
	av_pool *p = calloc(1, sizeof *p);
	if (!p) return NULL;
	p->threads = threads;
	p->ids = calloc((size_t)threads, sizeof *p->ids);
#if !defined(__linux__)
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->cond, NULL);
#endif
	for (int id = 1; p->ids && id < threads; id++) {
		worker_arg *w = malloc(sizeof *w);
		if (w) *w = (worker_arg){p, id};
		if (!w || pthread_create(&p->ids[id], NULL, worker_main, w) != 0) {
			free(w);
			av_pool_close(p);
			return NULL;
		}
		p->started++;
	}
	if (!p->ids) {
		av_pool_close(p);
		return NULL;
	}
	return p;
}

void av_pool_close(av_pool *p) {
	atomic_store(&p->closing, 1);
	ring(p);
	for (int id = 1; id <= p->started; id++) pthread_join(p->ids[id], NULL);
#if !defined(__linux__)
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->mutex);
#endif
	free(p->ids);
	free(p);
}

int av_pool_threads(const av_pool *p) { return p->threads; }
