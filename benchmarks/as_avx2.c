/* Lets a program believe that its processor has AVX2 and nothing newer, so that onnxruntime takes its kernels for that.
   as_avx2.py compiles and preloads it.

   Linux on x86-64. With CPUID faulting ("cpuid_fault" in /proc/cpuinfo) the instruction CPUID raises SIGSEGV; without it
   the bytes cd a2, by which as_avx2.py has overwritten CPUID in copies of the runtimes, do. The handler runs CPUID and
   takes AVX512, AVX-VNNI and AMX out of the answer. A handler that the program sets for SIGSEGV, such as Python's
   faulthandler, gets the signals that are not ours. /proc/cpuinfo has no flags of these sets either, for programs that
   look there, as optim does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };

static int caught; /* whether the kernel raises SIGSEGV at CPUID itself */
static struct sigaction theirs; /* what the program wants done at SIGSEGV */
static int (*set_action)(int, const struct sigaction *, struct sigaction *);

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  if (!set_action) set_action = dlsym(RTLD_NEXT, "sigaction");
  if (number != SIGSEGV) return set_action(number, action, before);
  struct sigaction old = theirs;
  if (action) theirs = *action;
  if (before) *before = old;
  return 0;
}

static void pass_on(int number, siginfo_t *info, void *context) {
  if (theirs.sa_flags & SA_SIGINFO)
    theirs.sa_sigaction(number, info, context);
  else if (theirs.sa_handler == SIG_DFL || theirs.sa_handler == SIG_IGN)
    signal(SIGSEGV, SIG_DFL);
  else
    theirs.sa_handler(number);
}

static void answer(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *code = (const unsigned char *)registers[REG_RIP];
  (void)number, (void)info;
  if ((code[0] != 0x0f && code[0] != 0xcd) || code[1] != 0xa2) {
    pass_on(number, info, context);
    return;
  }
  unsigned leaf = registers[REG_RAX], part = registers[REG_RCX], a = leaf, b, c = part, d;
  if (caught) syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  if (caught) syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
  if (leaf == 7 && part == 0) {
    b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
    d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
  } else if (leaf == 7 && part == 1) {
    a &= ~(1u << 4 | 1u << 5 | 1u << 21 | 1u << 23);
    b = d = 0;
  }
  registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

/* The flags of a line of /proc/cpuinfo that AVX2 does not have are overwritten with blanks. */
static void hide(char *line) {
  static const char *const sets[] = {" avx512", " avx_vnni", " amx_", " avx_ifma", " avx_ne_convert"};
  for (unsigned i = 0; i < sizeof sets / sizeof *sets; i++)
    for (char *found = strstr(line, sets[i]); found; found = strstr(found, sets[i]))
      for (found++; *found && *found != ' ' && *found != '\n'; found++) *found = ' ';
}

static int open_cpuinfo(void) {
  static char line[1 << 14];
  int made = memfd_create("cpuinfo", 0);
  FILE *real = fdopen((int)syscall(SYS_openat, AT_FDCWD, "/proc/cpuinfo", O_RDONLY, 0), "r");
  if (made < 0 || !real) return -1;
  while (fgets(line, sizeof line, real)) {
    hide(line);
    if (write(made, line, strlen(line)) < 0) return -1;
  }
  fclose(real);
  lseek(made, 0, SEEK_SET);
  return made;
}

static int opened(const char *path, int flags, va_list more) {
  if (path && !strcmp(path, "/proc/cpuinfo")) return open_cpuinfo();
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0);
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int file = opened(path, flags, more);
  va_end(more);
  return file;
}

int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int file = opened(path, flags | O_LARGEFILE, more);
  va_end(more);
  return file;
}

__attribute__((constructor)) static void start(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER; /* no SA_ONSTACK: OpenVINO leaves a stack for signals that it has freed */
  sigaction(SIGUSR2, 0, &theirs); /* finds the real one */
  memset(&theirs, 0, sizeof theirs);
  set_action(SIGSEGV, &action, 0);
  caught = !syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}
