#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "sources/listening/listening.h"

namespace gpulens::listening {
namespace {

const std::string kCorpus = GPULENS_SOURCE_DIR "/src/sources/listening/testdata/tcp_table_fuzz_corpus/";

// The first byte of a seed is the fuzzer's.
std::string Seed(const std::string& name) { return ReadFile(kCorpus + name)->substr(1); }

TEST(TcpTableTest, ListeningSocketsOnly) {
  std::vector<ListeningSocket> sockets;
  EXPECT_EQ(AppendListening(Seed("tcp"), false, 100, sockets), 2u);  // nonsense, and port 0
  ASSERT_EQ(sockets.size(), 2u);
  EXPECT_EQ(sockets[0].at.ToString(), "127.0.0.1:8000");
  EXPECT_EQ(sockets[0].inode, 5001u);
  EXPECT_EQ(sockets[0].uid, 1000u);
  EXPECT_EQ(sockets[1].at.ToString(), "0.0.0.0:22");
  EXPECT_EQ(AppendListening(Seed("tcp6"), true, 100, sockets), 0u);
  ASSERT_EQ(sockets.size(), 3u);
  EXPECT_EQ(sockets[2].at.ToString(), "[::1]:8080");
}

TEST(TcpTableTest, TheLimitHolds) {
  std::vector<ListeningSocket> sockets;
  AppendListening(Seed("tcp"), false, 1, sockets);
  EXPECT_EQ(sockets.size(), 1u);
}

TEST(TcpTableTest, AddressesWithoutLoopback) {
  auto addresses = LocalAddresses(Seed("fib_trie"));
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses[0].Host(), "10.244.0.5");
}

// A folder that looks like /proc; it is written here, as the repository cannot hold such links.
class ProcTest : public ::testing::Test {
 protected:
  ProcTest() {
    root_ = ::testing::TempDir() + "listening_" + std::to_string(::getpid());
    std::filesystem::remove_all(root_);
  }
  ~ProcTest() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    std::string whole = root_ + "/proc/" + path;
    ASSERT_TRUE(MakeFoldersAbove(whole));
    ASSERT_TRUE(WriteFileAtomically(whole, text));
  }
  void Link(const std::string& path, const std::string& target) {
    std::string whole = root_ + "/proc/" + path;
    ASSERT_TRUE(MakeFoldersAbove(whole));
    std::filesystem::create_symlink(target, whole);
  }
  std::string root_;
};

TEST_F(ProcTest, ProcessesWithNamesArgumentsAndNamespaces) {
  Put("12/comm", "llama-server\n");
  Put("12/cmdline", std::string("llama-server\0--port\0"
                                "8099\0",
                                25));
  Put("12/stat", "12 (llama (x) server) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20");
  Link("12/ns/net", "net:[4026531840]");
  Put("13/comm", "kworker\n");
  Put("13/cmdline", "");
  Put("cpuinfo", "");
  auto all = ListProcesses(root_, [](const std::string&, const auto&) { return true; }, 10);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].pid, 12);
  EXPECT_EQ(all[0].name, "llama-server");
  EXPECT_EQ(all[0].args, (std::vector<std::string>{"llama-server", "--port", "8099"}));
  EXPECT_EQ(all[0].started, 777u);
  EXPECT_EQ(all[0].net_ns, 4026531840u);
  EXPECT_TRUE(all[1].args.empty());
  EXPECT_EQ(all[1].net_ns, 0u);
  EXPECT_EQ(ListProcesses(root_, [](const std::string&, const auto&) { return true; }, 1).size(), 1u);
  EXPECT_FALSE(ReadProcess(root_, 99).has_value());
}

TEST_F(ProcTest, HoldersOfSockets) {
  Link("12/fd/3", "socket:[5001]");
  Link("12/fd/4", "pipe:[5002]");
  Link("14/fd/3", "socket:[5009]");
  Put("15/comm", "hidden\n");
  size_t hidden = 0;
  auto holders = FindHolders(root_, {}, {5009, 5001, 5002}, hidden);
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].inode, 5001u);
  EXPECT_EQ(holders[0].pid, 12);
  EXPECT_EQ(holders[1].pid, 14);
  EXPECT_EQ(hidden, 1u);
  EXPECT_TRUE(FindHolders(root_, {12}, {5009}, hidden).empty());
}

}  // namespace
}  // namespace gpulens::listening
