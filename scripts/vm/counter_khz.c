// counter_khz: how fast the counter runs that the emulator gives an x86 machine as its time stamp
// counter, in kHz. QEMU without -icount hands on the host's own: the time stamp counter on x86, the
// virtual timer's on aarch64. A machine that finds it out by itself, against timers that a busy
// host lets wait, can be wrong by a factor: its clock then runs away. Linux takes the value as
// tsc_early_khz=.
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { INTERVAL_NS = 100000000 };

static uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
#error "which counter QEMU hands on here (cpu_get_host_ticks) is not known"
#endif
}

struct moment {
	uint64_t ticks;
	int64_t ns;
	uint64_t doubt; // ticks that passed while the clock was read
};

// The clock read between two looks at the counter; of several readings the one that was disturbed
// least.
static struct moment now(void)
{
	struct moment best = {.doubt = UINT64_MAX};

	for (int i = 0; i < 20; i++) {
		struct timespec time;
		uint64_t before = counter(), after;

		clock_gettime(CLOCK_MONOTONIC, &time);
		after = counter();
		if (after - before < best.doubt)
			best = (struct moment){
				.ticks = before + (after - before) / 2,
				.ns = time.tv_sec * 1000000000LL + time.tv_nsec,
				.doubt = after - before,
			};
	}
	return best;
}

int main(void)
{
	struct moment first = now(), last;

	nanosleep(&(struct timespec){.tv_nsec = INTERVAL_NS}, NULL);
	last = now();
	printf("%.0f\n", (double)(last.ticks - first.ticks) / (double)(last.ns - first.ns) * 1e6);
	return 0;
}
