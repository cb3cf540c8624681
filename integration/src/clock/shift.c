/* Preloaded into a program: the time of day that it reads is off by CLOCK_SHIFT seconds. What only counts on stays. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    const char *shift = getenv("CLOCK_SHIFT");
    if (result == 0 && id == CLOCK_REALTIME && shift)
        now->tv_sec += atol(shift);
    return result;
}
