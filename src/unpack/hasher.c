/* A ring of pieces: filled by one thread, hashed by another. */
#include "unpack/hasher.h"

static void hash_next(struct hasher *h)
{
    unsigned at = (unsigned)(h->done % HASHER_PIECES);
    if (!h->off)
        sha256_add(&h->sha, h->pieces[at], h->len[at]);
}

static void *work(void *ctx)
{
    struct hasher *h = ctx;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (h->done == h->added && !h->end)
            pthread_cond_wait(&h->changed, &h->lock);
        if (h->done == h->added)
            break;
        pthread_mutex_unlock(&h->lock);
        hash_next(h);
        pthread_mutex_lock(&h->lock);
        h->done++;
        pthread_cond_signal(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

void hasher_start(struct hasher *h, bool off)
{
    h->off = off;
    sha256_init(&h->sha);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    h->added = h->done = 0;
    h->end = false;
    h->beside = !off && pthread_create(&h->thread, NULL, work, h) == 0;
}

char *hasher_room(struct hasher *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->beside && h->added - h->done == HASHER_PIECES)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return h->pieces[h->added % HASHER_PIECES];
}

void hasher_add(struct hasher *h, size_t len)
{
    pthread_mutex_lock(&h->lock);
    h->len[h->added % HASHER_PIECES] = len;
    h->added++;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    if (!h->beside) {
        hash_next(h);
        h->done++;
    }
}

void hasher_finish(struct hasher *h, uint8_t ret[static SHA256_SIZE])
{
    if (h->beside) {
        pthread_mutex_lock(&h->lock);
        h->end = true;
        pthread_cond_signal(&h->changed);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->thread, NULL);
    }
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
    sha256_finish(&h->sha, ret);
}
