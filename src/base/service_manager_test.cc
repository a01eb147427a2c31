#include "base/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/fd.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

TEST(ServiceManager, GetsWhatIsSentAndNothingWithoutASocket) {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/notify";
  UniqueFd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  char text[64];
  for (const char* socket : {path.c_str(), "relative", "/nowhere/at/all"}) {
    ::setenv("NOTIFY_SOCKET", socket, 1);
    NotifyServiceManager("READY=1");
  }
  ::unsetenv("NOTIFY_SOCKET");
  NotifyServiceManager("STOPPING=1");
  const ssize_t got = ::recv(manager.get(), text, sizeof text, MSG_DONTWAIT);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(text, static_cast<size_t>(got)), "READY=1");
  EXPECT_LT(::recv(manager.get(), text, sizeof text, MSG_DONTWAIT), 0);
}

}  // namespace
}  // namespace gpulens
