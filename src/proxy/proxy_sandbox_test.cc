#include "proxy/proxy_sandbox.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens::proxy {
namespace {

using gpulens::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Runs `what` in a process of its own that is confined; returns its exit code, -1 where nothing confines
// here.
int Inside(const ProxyFiles& files, const std::function<int(const ProxySandbox&)>& what) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const ProxySandbox sandbox = ProxySandbox::Enter(SandboxMode::kEnforce, files);
    for (const SandboxLayer& layer : sandbox.layers()) {
      if (!layer.on) ::_exit(255);
    }
    ::_exit(what(sandbox));
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -2;
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

#define SKIP_WITHOUT_SANDBOX(code) \
  if ((code) == -1) GTEST_SKIP() << "no Landlock or no seccomp here, or a sanitizer"

bool Reads(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

TEST(ProxySandbox, ReadsWhatIsNamedAlsoWhenItWasReplacedAndNothingElse) {
  TempFolder config, state, other;
  config.Write("proxy.yaml", "a");
  other.Write("file", "b");
  const std::string file = config.path() + "/proxy.yaml";
  const ProxyFiles files{.read = {file}, .folders = {state.path() + "/proxy"}};
  const int code = Inside(files, [&](const ProxySandbox&) {
    if (!Reads(file)) return 1;
    if (Reads(other.path() + "/file") || errno != EACCES) return 2;
    if (!WriteFileAtomically(state.path() + "/proxy/charges", "x")) return 3;
    if (WriteFileAtomically(config.path() + "/made", "x")) return 4;
    if (WriteFileAtomically(state.path() + "/made", "x")) return 5;
    return Reads("/etc/nsswitch.conf") || errno == ENOENT ? 0 : 6;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
  // Replaced by a process that is not confined.
  int ready[2], go[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC) | ::pipe2(go, O_CLOEXEC), 0);
  std::thread replaces([&] {
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_TRUE(WriteFileAtomically(file, "new"));
    EXPECT_EQ(::write(go[1], "x", 1), 1);
  });
  EXPECT_EQ(Inside(files,
                   [&](const ProxySandbox&) {
                     char byte = 0;
                     if (::write(ready[1], "x", 1) != 1 || ::read(go[0], &byte, 1) != 1) return 1;
                     return ReadFile(file, 100).value_or("") == "new" ? 0 : 2;
                   }),
            0);
  replaces.join();
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}

TEST(ProxySandbox, FollowsLinksAsKubernetesMakesThem) {
  TempFolder mount;
  for (const char* folder : {"/one/", "/two/"}) ASSERT_TRUE(MakeFoldersAbove(mount.path() + folder).ok());
  mount.Write("one/proxy.yaml", "1");
  ASSERT_EQ(::symlink("one", (mount.path() + "/data").c_str()), 0);
  const std::string file = mount.path() + "/proxy.yaml";
  ASSERT_EQ(::symlink("data/proxy.yaml", file.c_str()), 0);
  mount.Write("two/proxy.yaml", "2");
  const int code = Inside({.read = {file}, .folders = {}}, [&](const ProxySandbox&) {
    return Reads(file) && Reads(mount.path() + "/two/proxy.yaml") ? 0 : 1;
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(ProxySandbox, HasTheNetworkAndNoProgram) {
  const int code = Inside({}, [](const ProxySandbox&) {
    if (::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0) return 1;
    std::thread([] {}).join();
    char program[] = "/bin/true";
    char* arguments[] = {program, nullptr};
    ::execv(program, arguments);
    if (errno != EPERM) return 2;
    if (::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0) return 3;
    if (::prctl(PR_GET_DUMPABLE) != 0) return 4;
    return ::prctl(PR_CAPBSET_READ, 10) == 1 && ::geteuid() == 0 ? 5 : 0;  // CAP_NET_BIND_SERVICE
  });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(ProxySandbox, NamesWhatANewConfigurationNeedsBesides) {
  TempFolder config, other;
  const std::string file = config.path() + "/proxy.yaml";
  ::setenv("CREDENTIALS_DIRECTORY", "/run/credentials/of/no.service", 1);
  const int code =
      Inside({.read = {file}, .folders = {config.path() + "/state"}}, [&](const ProxySandbox& sandbox) {
        const std::vector<std::string> none = sandbox.Outside(
            {.read = {file, config.path() + "/prices.tsv", config.path() + "/state/keys.tsv",
                      config.path() + "/../" + config.path().substr(config.path().rfind('/') + 1) + "/x"},
             .folders = {config.path() + "/state"}});
        const std::vector<std::string> some = sandbox.Outside(
            {.read = {other.path() + "/prices.tsv", file, config.path() + "x/y"}, .folders = {other.path()}});
        if (!none.empty() || some.size() != 3) {
          for (const std::string& path : none) std::printf("refused: %s\n", path.c_str());
          for (const std::string& path : some) std::printf("of three: %s\n", path.c_str());
          std::fflush(stdout);
          return 1;
        }
        return 0;
      });
  SKIP_WITHOUT_SANDBOX(code);
  EXPECT_EQ(code, 0);
}

TEST(ProxySandbox, OffHoldsNothing) {
  const ProxySandbox sandbox = ProxySandbox::Enter(SandboxMode::kOff, {.read = {"/etc/x"}, .folders = {}});
  for (const SandboxLayer& layer : sandbox.layers()) EXPECT_FALSE(layer.on) << layer.name;
  EXPECT_THAT(sandbox.Outside({.read = {"/anywhere/else"}, .folders = {}}), IsEmpty());
}

TEST(ProxySandbox, FilesOfPostgres) {
  ProxyFiles files;
  ::setenv("HOME", "/home/x", 1);
  ::unsetenv("PGPASSFILE");
  AddPostgresFiles("clickhouse://h/?sslrootcert=/a", files);
  AddPostgresFiles("/var/lib/charges.db", files);
  EXPECT_THAT(files.read, IsEmpty());
  ::setenv("PGPASSFILE", "/etc/secret/pgpass", 1);
  AddPostgresFiles(
      "postgresql://u@h/db?sslmode=verify-full&sslrootcert=/etc/pg%2Fca.pem&host=/run/postgresql", files);
  ::unsetenv("PGPASSFILE");
  EXPECT_THAT(files.read,
              ElementsAre("/etc/pg/ca.pem", "/etc/secret/pgpass", "/home/x/.postgresql/root.crt"));
}

}  // namespace
}  // namespace gpulens::proxy
