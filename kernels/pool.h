// A pool of worker threads that join jobs; see pool.c.
#ifndef AV_POOL_H
#define AV_POOL_H

#include <stdint.h>

typedef struct av_pool av_pool;

// A piece of a job. worker is 0 for the caller and at most threads-1: it may be
// used to pick scratch memory, never to decide what is computed.
typedef void (*av_task)(const void *arg, int64_t chunk, int worker);

av_pool *av_pool_open(int threads);
void av_pool_close(av_pool *p);
int av_pool_threads(const av_pool *p);

// Calls task for every chunk in [0, chunks) and returns when all have run.
// One job at a time: the caller holds the device's lock.
void av_pool_run(av_pool *p, int64_t chunks, av_task task, const void *arg);

#endif
