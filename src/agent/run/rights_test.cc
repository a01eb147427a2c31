#include "agent/run/rights.h"

#include <gtest/gtest.h>
#include <linux/capability.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "agent/plugin_tables.h"
#include "agent/run/plan.h"
#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "config/loader.h"
#include "scrape/page_process.h"

namespace gpulens {
namespace {

// A quiet agent: everything that would be found on this machine is off, so that a row shows what it adds.
constexpr std::string_view kQuiet =
    "state_dir: /var/lib/test\n"
    "control: {socket: none}\n"
    "collectors: {nvidia: {enabled: false}, amd: {enabled: false}, gaudi: {enabled: false}, "
    "programs: {enabled: false}, kernel_log: {enabled: false}}\n"
    "enrichers: {slurm: {enabled: false}}\n";

class RightsTest : public ::testing::Test {
 protected:
  Config Parse(const std::string& text) {
    LoadOutcome out = Load(*schema_, {.file_name = "test.yaml",
                                      .file_text = text,
                                      .environment = {},
                                      .flags = {},
                                      .inspect_file = nullptr,
                                      .inspect_folder = nullptr});
    EXPECT_TRUE(out.ok()) << out.Report() << text;
    return std::move(out.config);
  }
  Rights Of(const std::string& text) {
    Env env;
    env.state_dir = "/var/lib/test";
    Rights rights = RightsOf(Parse(text), env);
    // Every agent may start the reader process of an isolated page.
    const auto page = std::ranges::find(rights.programs, PageReaderRule());
    EXPECT_NE(page, rights.programs.end());
    if (page != rights.programs.end()) rights.programs.erase(page);
    return rights;
  }
  // With one line of the quiet configuration replaced.
  static std::string With(std::string_view from, std::string_view to) {
    std::string text(kQuiet);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  static std::string And(const std::string& more) { return std::string(kQuiet) + more; }

  // A program that can be run, in a folder of its own.
  std::string Program(const std::string& name) { return folder_.WriteProgram(name, ""); }

  testing::TempFolder folder_;
  const std::unique_ptr<Schema> schema_ = MakeSchema();
};

using Texts = std::vector<std::string>;

// The paths of programs.
std::vector<std::string> Paths(const Rights& rights) {
  std::vector<std::string> out;
  for (const ProgramRule& rule : rights.programs) out.push_back(rule.path);
  return out;
}

// Its arguments without that which names this build.
Texts WithoutBuild(const ProgramRule& rule) {
  Texts out = rule.arguments;
  std::erase_if(out, [](const std::string& argument) { return argument.starts_with("--build-id="); });
  EXPECT_EQ(out.size() + 1, rule.arguments.size());
  return out;
}

TEST_F(RightsTest, AQuietAgentWritesItsStateAndNothingElse) {
  const Rights rights = Of(std::string(kQuiet));
  EXPECT_EQ(rights.folders, Texts{"/var/lib/test"});
  EXPECT_TRUE(rights.devices.empty());
  EXPECT_TRUE(rights.programs.empty()) << rights.programs.front().path;
  EXPECT_EQ(rights.capabilities, std::vector<int>{CAP_DAC_READ_SEARCH});
}

TEST_F(RightsTest, FoldersFollowFromTheConfiguration) {
  const std::string data = folder_.path();
  const struct {
    std::string text;
    Texts more;  // than the state folder
  } kCases[] = {
      {And("sinks: {file: {path: " + data + "/x.jsonl}}"), {data}},
      {And("sinks: {file: {enabled: false, path: " + data + "/x.jsonl}}"), {}},
      {And("sinks: {file: {path: " + data + "/../" + data.substr(data.rfind('/') + 1) + "/./x}}"), {data}},
      {And("sinks: {file: {path: /dev/stdout}}"), {}},
      {And("sinks: {file: {path: /data-that-is-not-here/x.jsonl}}"), {}},
      {And("sinks: {file: {path: /var/lib/test/x.jsonl}}"), {}},
      {And("sinks: {otlp: {endpoint: 'http://127.0.0.1:1', queue: {dir: /srv/queue}}}"), {"/srv/queue"}},
      {And("sinks: {otlp: {endpoint: 'http://127.0.0.1:1', queue: {dir: /srv/queue, storage: memory}}}"), {}},
      {And("sinks: {otlp: {endpoint: 'http://127.0.0.1:1', queue: {dir: /srv/q/own}}}\n"
           "receivers: {otlp: {enabled: true}}"),
       {"/srv/q/own", "/srv/q/received"}},
      {And("sinks: {otlp: {endpoint: 'http://127.0.0.1:1'}}"), {}},
      {And("http: {listen: ['unix:/run/web/page.sock']}"), {"/run/web"}},
      {And("sinks: {otlp: {endpoint: 'http://127.0.0.1:1'}}\nreceivers: {otlp: {http: {listen: "
           "['unix:/run/in/o.sock']}}}"),
       {"/run/in"}},
      {And("receivers: {otlp: {enabled: false, http: {listen: ['unix:/run/in/o.sock']}}}"), {}},
      {With("socket: none", "socket: /run/me/gpulens.sock"), {"/run/me"}},
      {With("programs: {enabled: false}", "programs: {socket: /run/p/otlp.sock, energy: false}"), {"/run/p"}},
      {And("experiments: {db: /home/someone/experiments.db}"), {}},
      {And("http: {web_config: /etc/gpulens/web.yaml}"), {}},
  };
  for (const auto& one : kCases) {
    Texts expected = one.more;
    expected.emplace_back("/var/lib/test");
    std::ranges::sort(expected);
    EXPECT_EQ(Of(one.text).folders, expected) << one.text;
  }
}

TEST_F(RightsTest, PortsBelow1024NeedACapability) {
  const auto needs = [&](const std::string& more) {
    const Rights rights = Of(And(more));
    return std::ranges::find(rights.capabilities, CAP_NET_BIND_SERVICE) != rights.capabilities.end();
  };
  EXPECT_FALSE(needs("http: {listen: ['127.0.0.1:9091']}"));
  EXPECT_FALSE(needs("http: {listen: ['127.0.0.1:0']}")) << "the kernel chooses a free one";
  // Containers may set net.ipv4.ip_unprivileged_port_start to 0: then no port needs it.
  const bool limited =
      ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", 64).value_or("1024") != "0\n";
  EXPECT_EQ(needs("http: {listen: ['127.0.0.1:80']}"), limited);
  EXPECT_EQ(needs("sinks: {keda: {listen: ['127.0.0.1:99']}}"), limited);
}

TEST_F(RightsTest, TheKernelLogNeedsItsSource) {
  const auto of = [&](const std::string& options) {
    return Of(With("kernel_log: {enabled: false}", "kernel_log: " + options));
  };
  const std::vector<int> with_syslog{CAP_DAC_READ_SEARCH, CAP_SYSLOG};
  EXPECT_EQ(of("{source: kmsg}").devices, Texts{"/dev/kmsg"});
  EXPECT_EQ(of("{source: kmsg}").capabilities, with_syslog);
  EXPECT_TRUE(of("{source: kmsg}").programs.empty());
  EXPECT_EQ(of("{source: kmsg, path: /tmp/k}").devices, Texts{"/tmp/k"});
  EXPECT_EQ(of("{source: auto}").devices, Texts{"/dev/kmsg"});
  EXPECT_TRUE(of("{source: file, path: /var/log/kern.log}").devices.empty());
  EXPECT_EQ(of("{source: journald}").capabilities, std::vector<int>{CAP_DAC_READ_SEARCH});
  for (const ProgramRule& rule : of("{source: journald}").programs) {
    EXPECT_TRUE(rule.path.ends_with("/journalctl")) << rule.path;
    EXPECT_TRUE(rule.prefixes.empty() && rule.variables.empty() && !rule.network);
  }
}

TEST_F(RightsTest, ReaderProcessesAreStartedWithWhatIsConfigured) {
  const Rights usual = Of(With("nvidia: {enabled: false}", "nvidia: {enabled: true}"));
  ASSERT_EQ(Paths(usual), Texts{"/proc/self/exe"});
  EXPECT_EQ(WithoutBuild(usual.programs.front()), (Texts{"reader", "nvml", "--simulated"}));
  EXPECT_TRUE(usual.programs.front().confines_itself);
  EXPECT_FALSE(usual.programs.front().network);
  EXPECT_FALSE(usual.programs.front().reads_processes);
  const Rights other = Of(With("amd: {enabled: false}", "amd: {library: /opt/x/libamd_smi.so}"));
  ASSERT_EQ(other.programs.size(), 1U);
  EXPECT_EQ(WithoutBuild(other.programs.front()),
            (Texts{"reader", "amdsmi", "--simulated", "--library=/opt/x/libamd_smi.so"}));
  const Rights energy = Of(With("programs: {enabled: false}", "programs: {socket: /run/p/otlp.sock}"));
  ASSERT_EQ(energy.programs.size(), 1U);
  EXPECT_TRUE(energy.programs.front().reads_processes);
}

// What the rules permit, as the launcher decides it, and what not.
TEST_F(RightsTest, ProgramsOfOthersAreAbsoluteAndTheirArgumentsFixed) {
  const std::string link = folder_.path() + "/scontrol", program = Program("the-real-scontrol");
  std::filesystem::create_symlink(program, link);
  Program("squeue"), Program("sinfo"), Program("sacct"), Program("sdiag");
  const Rights enricher = Of(With("slurm: {enabled: false}", "slurm: {programs: " + folder_.path() + "}"));
  const std::string real = std::filesystem::canonical(folder_.path()).string();
  EXPECT_EQ(Paths(enricher), (Texts{real + "/the-real-scontrol", real + "/squeue"}));
  const ProgramRule& scontrol = enricher.programs.front();
  EXPECT_TRUE(scontrol.network);
  EXPECT_EQ(scontrol.arguments, (Texts{"show", "job", "-d"}));
  for (const std::string& prefix : scontrol.prefixes)
    EXPECT_TRUE(prefix.size() == 1 && prefix[0] >= '0' && prefix[0] <= '9')
        << "no word such as shutdown: " << prefix;
  const Rights cluster = Of(With("nvidia: {enabled: false}",
                                 "nvidia: {enabled: false}, slurm: {watch_cluster: true, "
                                 "programs: " +
                                     folder_.path() + "}"));
  EXPECT_EQ(Paths(cluster), (Texts{real + "/sinfo", real + "/squeue", real + "/sdiag", real + "/sacct"}));
  EXPECT_TRUE(
      Of(With("slurm: {enabled: false}", "slurm: {scontrol: false, programs: " + folder_.path() + "}"))
          .programs.empty());
  const Rights gaudi = Of(With("gaudi: {enabled: false}", "gaudi: {hl_smi_path: " + Program("hl-smi") + "}"));
  ASSERT_EQ(Paths(gaudi), Texts{real + "/hl-smi"});
  EXPECT_FALSE(gaudi.programs.front().network);
}

TEST_F(RightsTest, WhatIsMissingIsASentence) {
  const Rights granted = Of(std::string(kQuiet));
  const auto missing = [&](const std::string& text) { return MissingRights(granted, granted, Of(text)); };
  EXPECT_EQ(missing(std::string(kQuiet)), "");
  EXPECT_EQ(missing(And("sinks: {file: {path: /var/lib/test/sub/x.jsonl}}")), "");
  EXPECT_EQ(missing(And("sinks: {file: {path: " + folder_.path() + "/x.jsonl}}")),
            "it needs to write " + folder_.path() + ", which it may not since it started: restart the agent");
  EXPECT_EQ(
      missing(With("kernel_log: {enabled: false}", "kernel_log: {source: kmsg}")),
      "it needs to open /dev/kmsg, CAP_SYSLOG to read the kernel's log, which it may not since it started: "
      "restart the agent");
  EXPECT_EQ(
      missing(With("nvidia: {enabled: false}", "nvidia: {library: /opt/libnvidia-ml.so.1}")),
      "it needs to start gpulens reader nvml --library=/opt/libnvidia-ml.so.1, which it may not since it "
      "started: restart the agent");
}

TEST_F(RightsTest, WhatWasGrantedCoversLess) {
  const std::string on = With("nvidia: {enabled: false}", "nvidia: {links: true, clock_events: true}");
  const std::string less = With("nvidia: {enabled: false}", "nvidia: {interval: 5s}");
  EXPECT_EQ(MissingRights(Of(on), Of(on), Of(less)), "") << "other periods and details need no other right";
  EXPECT_EQ(MissingRights(Of(on), Of(on), Of(std::string(kQuiet))), "");
}

// A program that was installed after the start is missing in both configurations.
TEST_F(RightsTest, WhatIsMissingAlreadyRefusesNothing) {
  const Rights granted = Of(std::string(kQuiet));
  const std::string on = With("gaudi: {enabled: false}", "gaudi: {hl_smi_path: " + Program("hl-smi") + "}");
  EXPECT_NE(MissingRights(granted, granted, Of(on)), "");
  EXPECT_EQ(MissingRights(granted, Of(on), Of(on)), "");
}

TEST_F(RightsTest, FoldersThatLookAlikeAreNotBelowEachOther) {
  Rights granted, later;
  granted.folders = {"/data/a"};
  for (const char* inside : {"/data/a", "/data/a/b"}) {
    later.folders = {inside};
    EXPECT_EQ(MissingRights(granted, granted, later), "") << inside;
  }
  for (const char* outside : {"/data/a-b", "/data", "/", "/data/ab/c"}) {
    later.folders = {outside};
    EXPECT_NE(MissingRights(granted, granted, later), "") << outside;
  }
}

// Names of options that look as if they named something to write or to start.
bool SoundsLikeAPlace(std::string_view key) {
  for (std::string_view word : {"path", "dir", "folder", "socket", "program", "library"})
    if (key.find(word) != std::string_view::npos) return true;
  return false;
}

void PlacesOf(std::span<const OptionSpec> options, const std::string& prefix, std::vector<std::string>& out) {
  for (const OptionSpec& option : options) {
    PlacesOf(option.children, prefix + std::string(option.key) + ".", out);
    const bool text = option.type == OptionType::kText || option.type == OptionType::kTexts;
    if (text && SoundsLikeAPlace(option.key)) out.push_back(prefix + std::string(option.key));
  }
}

// A plugin with an option that names a file, a folder or a program has the hook, or is listed here with a
// reason.
TEST(RightsOfPlugins, AnOptionThatNamesAPlaceHasAHook) {
  const std::map<std::string, std::string> kNone = {
      {"collectors.targets.transport.unix_socket", "connects to it"},
      {"collectors.nccl.collectives.transport.unix_socket", "connects to it"},
      {"collectors.probes.socket", "connects to it"},
      {"sinks.otlp.transport.unix_socket", "connects to it"},
      {"sinks.remote_write.transport.unix_socket", "connects to it"},
      {"sinks.webhook.transport.unix_socket", "connects to it"},
      {"enrichers.kubernetes.pod_resources_socket", "connects to it"},
      {"discovery.kubernetes.path", "of a URL"},
      {"receivers.remote_write.http.path", "of a URL"},
  };
  std::set<std::string> seen;
  ForEachPlugin([&](std::string_view section, const auto& spec) {
    std::vector<std::string> places;
    PlacesOf(spec.options, "", places);
    bool hook = false;
    if constexpr (requires { spec.rights; }) hook = spec.rights != nullptr;
    for (const std::string& place : places) {
      const std::string name = std::string(section) + "." + std::string(spec.name) + "." + place;
      if (place == "queue.dir") continue;  // of every sink with a queue: RightsOf
      if (hook) continue;
      EXPECT_TRUE(kNone.contains(name)) << name << ": has no hook `rights`";
      seen.insert(name);
    }
  });
  for (const auto& [name, reason] : kNone)
    EXPECT_TRUE(seen.contains(name)) << name << " (" << reason << ") is none";
}

}  // namespace
}  // namespace gpulens
