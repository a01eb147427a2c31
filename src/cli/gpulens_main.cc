#include <fcntl.h>
#include <unistd.h>

#include <exception>

#include "base/terminate.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  std::set_terminate(gpulens::PrintStackAndAbort);
  // Where a standard stream is closed, no file or socket may take its number.
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 0) ::close(fd);
  return gpulens::RunCommandLine(argc, argv);
}
