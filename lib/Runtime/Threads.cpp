//===- Threads.cpp - starting and naming threads ---------------------------===//

#include "Threads.h"

#include <pthread.h>
#include <signal.h>

namespace tilewright {

std::thread startThread(const std::string &name, std::function<void()> body) {
  sigset_t blocked, previous;
  sigfillset(&blocked);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
    sigdelset(&blocked, own);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous); // inherited by the new thread
  struct Restore {
    sigset_t *mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, mask, nullptr); }
  } restore{&previous};
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

} // namespace tilewright
