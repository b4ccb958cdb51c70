#include "train/system/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

namespace tapestry {

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // Open the wrong way round, so that using it is an error as it is with a closed one. The lowest
    // free number is that of the stream, those below being taken.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace tapestry
