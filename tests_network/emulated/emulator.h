/* Runs the source of the kernels on a processor: every thread of a block is a fiber, and collectives wait for each other.
 *
 * A collective that some lane of its warp never reaches stops the program: on a device it would hang or read garbage.
 */
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __constant__ static const
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(name) unsigned char *name = emulated_pool()

#define HALVES
#define ADDS_PRODUCTS
static void add_product(unsigned long long &sum, unsigned a, unsigned b) { sum += (unsigned long long)a * b; }
#define LOOKS_AGAIN
static void look_again(unsigned &) {}
#define SATURATES
static int whole_part(double x) { return x >= 2147483647.0 ? 2147483647 : x > -2147483648.0 ? (int)x : -2147483647 - 1; }
#define ASKS_AHEAD
static void ask_ahead(const void *) {}
#define ASKED_FOR
template <int BYTES> static void ask_for_piece(void *to, const void *from) { memcpy(to, from, BYTES); }
static void end_of_request() {}
static void wait_for_request() {}
static void wait_for_all() {}

using std::max;
using std::min;

struct Index3 { unsigned x; };
static Index3 threadIdx, blockIdx, blockDim, gridDim;

struct Barrier { int arrived = 0; long generation = 0; unsigned long long slots[2][32]; };
/* Switching by hand takes nanoseconds; the library's way saves the signals each time, which takes a call of the system. */
#ifdef __x86_64__
typedef void *Context;
extern "C" void switch_stacks(Context *from, Context to);
asm(".text\n.hidden switch_stacks\n.globl switch_stacks\nswitch_stacks:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static void switch_to(Context &from, Context &to) { switch_stacks(&from, to); }
static void prepare(Context &context, std::vector<char> &stack, void (*start)()) {
    void **top = (void **)(((size_t)(stack.data() + stack.size()) & ~(size_t)15) - 16);
    *top = (void *)start; /* where the first switch returns to, at the alignment that a call leaves */
    context = top - 6;
}
#else
typedef ucontext_t Context;
static void switch_to(Context &from, Context &to) { swapcontext(&from, &to); }
static void prepare(Context &context, std::vector<char> &stack, void (*start)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack.data();
    context.uc_stack.ss_size = stack.size();
    context.uc_link = nullptr;
    makecontext(&context, start, 0);
}
#endif

struct Fiber { Context context; std::vector<char> stack; bool done; };

static Context scheduler;
static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static Barrier block_barrier;
static unsigned current;
static bool progress;
static const std::function<void()> *kernel;

static unsigned char *emulated_pool() { alignas(16) static unsigned char pool[256 * 1024]; return pool; }

static void wait_at(Barrier &b, int members) {
    progress = true;
    long mine = b.generation;
    if (++b.arrived == members) { b.arrived = 0; b.generation++; return; }
    while (b.generation == mine) switch_to(fibers[current].context, scheduler);
}

/* What every lane of the warp brought. */
static const unsigned long long *exchange(unsigned long long value) {
    Barrier &b = warps[threadIdx.x / 32];
    int side = b.generation & 1;
    b.slots[side][threadIdx.x % 32] = value;
    wait_at(b, 32);
    return b.slots[side];
}

template <typename T> static unsigned long long packed(T x) { unsigned long long b = 0; memcpy(&b, &x, sizeof x); return b; }
template <typename T> static T unpacked(unsigned long long b) { T x; memcpy(&x, &b, sizeof x); return x; }

static void __syncthreads() { wait_at(block_barrier, (int)blockDim.x); }
static void __syncwarp() { exchange(0); }
template <typename T> static T __shfl_xor_sync(unsigned, T x, int step) { return unpacked<T>(exchange(packed(x))[(threadIdx.x % 32) ^ step]); }
template <typename T> static T __shfl_sync(unsigned, T x, int lane) { return unpacked<T>(exchange(packed(x))[lane]); }
template <typename T> static T __shfl_up_sync(unsigned, T x, int step) {
    int lane = threadIdx.x % 32;
    const unsigned long long *all = exchange(packed(x));
    return unpacked<T>(all[lane >= step ? lane - step : lane]);
}
static unsigned __ballot_sync(unsigned, bool x) {
    const unsigned long long *all = exchange(x);
    unsigned votes = 0;
    for (int k = 0; k < 32; k++) votes |= (unsigned)(all[k] != 0) << k;
    return votes;
}
static bool __any_sync(unsigned mask, bool x) { return __ballot_sync(mask, x) != 0; }
static unsigned __reduce_add_sync(unsigned, unsigned x) {
    const unsigned long long *all = exchange(x);
    unsigned sum = 0;
    for (int k = 0; k < 32; k++) sum += (unsigned)all[k];
    return sum;
}
static unsigned __reduce_max_sync(unsigned, unsigned x) {
    const unsigned long long *all = exchange(x);
    unsigned most = 0;
    for (int k = 0; k < 32; k++) most = max(most, (unsigned)all[k]);
    return most;
}
static unsigned __reduce_min_sync(unsigned, unsigned x) {
    const unsigned long long *all = exchange(x);
    unsigned least = ~0u;
    for (int k = 0; k < 32; k++) least = min(least, (unsigned)all[k]);
    return least;
}
template <typename T, typename S> static T atomicAdd(T *at, S x) { T old = *at; *at += (T)x; return old; }
template <typename T, typename S> static T atomicMin(T *at, S x) { T old = *at; *at = min(old, (T)x); return old; }
template <typename T, typename S> static T atomicCAS(T *at, S expected, S x) { T old = *at; if (old == (T)expected) *at = (T)x; return old; }
#define POWERS_OF_TWO /* up or down by what a device may be off, by the last bit of x */
static float power_of_two(float x) {
    unsigned bits;
    memcpy(&bits, &x, 4);
    double exact = std::exp2((double)x) * (1.0 + (bits * 2654435761u >> 31 ? 0x1p-22 : -0x1p-22));
    return exact < 0x1p-126 ? 0.0f : (float)exact;
}
static float __fsqrt_rn(float x) { return std::sqrt(x); }
#define __log2f(x) std::log2((float)(x))
static float __fdividef(float x, float y) { return x / y; }
static unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned made = 0;
    for (int b = 0; b < 4; b++) made |= (unsigned)(both >> 8 * (which >> 4 * b & 7) & 255) << 8 * b;
    return made;
}
static unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
static int __ffs(unsigned x) { return __builtin_ffs((int)x); }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffsll(long long x) { return __builtin_ffsll(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static long long __double_as_longlong(double x) { return unpacked<long long>(packed(x)); }
static double __longlong_as_double(long long x) { return unpacked<double>(packed(x)); }
static unsigned __float_as_uint(float x) { return unpacked<unsigned>(packed(x)); }
static float __uint_as_float(unsigned x) { return unpacked<float>(packed(x)); }

static void run_fiber() {
    (*kernel)();
    fibers[current].done = true;
    progress = true;
    switch_to(fibers[current].context, scheduler);
}

static void run_block(unsigned threads) {
    warps.assign((threads + 31) / 32, Barrier());
    block_barrier = Barrier();
    fibers.resize(threads);
    for (unsigned t = 0; t < threads; t++) {
        Fiber &f = fibers[t];
        f.stack.resize(64 * 1024);
        f.done = false;
        prepare(f.context, f.stack, run_fiber);
    }
    for (unsigned left = threads; left;) {
        progress = false;
        left = 0;
        for (unsigned t = 0; t < threads; t++) {
            if (fibers[t].done) continue;
            current = threadIdx.x = t;
            switch_to(scheduler, fibers[t].context);
            left += !fibers[t].done;
        }
        if (left && !progress) { fprintf(stderr, "a collective was not reached by all lanes\n"); abort(); }
    }
}

static void emulate(unsigned grid, unsigned block, const std::function<void()> &work) {
    kernel = &work;
    gridDim.x = grid, blockDim.x = block;
    for (unsigned b = 0; b < grid; b++) {
        blockIdx.x = b;
        run_block(block);
    }
}
