// SPDX-License-Identifier: BSD-3-Clause
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <csignal>

// With sanitizers, too, an allocation that is too large fails instead of aborting the program.
#if defined(TAPESTRY_ASAN)
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#elif defined(TAPESTRY_TSAN)
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
#endif

int main(int argc, char** argv) {
  // Under nohup or in a background job of a script, the program starts with these signals ignored,
  // and tests that stop runs by a signal would wait forever.
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  return doctest::Context(argc, argv).run();
}
