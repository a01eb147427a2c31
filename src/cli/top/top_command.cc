#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "catalog/gpu.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/node/node_reader.h"
#include "cli/top/top_feed.h"
#include "cli/top/top_json.h"
#include "cli/top/top_model.h"
#include "cli/top/top_screen.h"
#include "cli/top/top_terminal.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

constexpr size_t kMostNodes = 64;
// Windows of the charts.
constexpr int64_t kWindows[] = {60, 300, 3600};
// A node that is away is given this long when the program ends.
constexpr Duration kEndTime = std::chrono::milliseconds(300);
constexpr Duration kShortest = std::chrono::milliseconds(100);

struct TopOptions {
  std::vector<std::string> urls;
  NodeOptions node;
  bool once = false, json = false, ascii = false;
  std::string interval = "1s", color = "auto";
};

int64_t NowMs() { return RealClock().Now().unix_ns / 1'000'000; }

int64_t UtcOffset() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  return ::localtime_r(&now, &local) ? local.tm_gmtoff : 0;
}

// One node: its reader, what was read, and the thread that reads.
struct Shown {
  std::unique_ptr<NodeReader> reader;
  TopModel model;
  std::unique_ptr<TopFeed> feed;
};

// "gpu.temperature" and others as charts, the most looked at first.
std::vector<TopChart> ChartsOf(const NodeHistory& history, const TopGpu& gpu) {
  struct Kind {
    const MetricDesc* metric;
    std::string_view key, value;
    const char *title, *unit;
    double scale, top;
  };
  const double memory = gpu.memory_total.known() ? gpu.memory_total.value / (1 << 30) : 0;
  const double limit = gpu.power_limit.known() ? gpu.power_limit.value : 0;
  const Kind kinds[] = {
      {&kGpuUtilization, "gpu.task.type", "compute", "busy", "%", 100, 100},
      {&kGpuPowerDraw, {}, {}, "power", "W", 1, limit},
      {&kGpuMemoryUsed, {}, {}, "memory", "GiB", 1.0 / (1 << 30), memory},
      {&kGpuTemperature, "gpu.temperature.sensor", "edge", "core", "degrees C", 1, 100},
      {&kGpuSmActive, {}, {}, "SM active", "%", 100, 100},
      {&kGpuPipeTensorActive, {}, {}, "tensor active", "%", 100, 100},
      {&kGpuInterconnectThroughput, {}, {}, "links, all directions", "GB/s", 1e-9, 0},
      {&kGpuClockFrequency, "gpu.clock.type", "sm", "SM clock", "MHz", 1,
       gpu.clock_max.known() ? gpu.clock_max.value : 0},
  };
  std::vector<TopChart> charts;
  for (const Kind& kind : kinds) {
    TopChart chart{kind.title, kind.unit, kind.scale, kind.top, {}};
    for (size_t i = 0; i < history.stepped.size(); ++i) {
      const KeptSeries& series = history.series[i].series;
      if (series.name != kind.metric->name || series.attributes.Has("gpu.mig.instance_id")) continue;
      if (!kind.key.empty() && series.attributes.Text(kind.key) != kind.value) continue;
      const std::vector<double>& values = history.stepped[i].avg;
      if (chart.values.empty()) {
        chart.values = values;
        continue;
      }
      // Directions of a link add up.
      for (size_t step = 0; step < std::min(values.size(), chart.values.size()); ++step) {
        if (std::isnan(values[step])) continue;
        double& sum = chart.values[step];
        sum = std::isnan(sum) ? values[step] : sum + values[step];
      }
    }
    if (!chart.values.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

void Apply(Shown& shown, TopUpdate update) {
  TopModel& model = shown.model;
  if (update.now) {
    model.Take(*update.now);
    if (update.trends) model.TakeTrends(*update.trends);
  } else {
    model.TakeFailure(update.failure, NowMs());
  }
  if (update.events) model.Take(*update.events);
  if (update.charts) {
    for (const TopGpu& gpu : model.node().gpus) {
      if (update.charts_of == gpu.uuid || (gpu.uuid.empty() && update.charts_of == gpu.index))
        model.node().charts = ChartsOf(*update.charts, gpu);
    }
  }
}

class Session {
 public:
  explicit Session(const TopOptions& options) : options_(options) {}

  int Run() {
    if (const auto wrong = ParseTimeValue(options_.interval, interval_); wrong || interval_ < kShortest)
      return FailCommand("top", "--interval: " + (wrong ? wrong->problem : "at least 100ms"), 2);
    if (options_.urls.size() > kMostNodes) return FailCommand("top", "at most 64 nodes", 2);
    // Signals are read from a descriptor; threads and reader processes start with the mask of now.
    const bool plain = options_.once || options_.json;
    const Status can = plain ? Ok() : TopTerminal::CanOpen();
    if (!plain && can) BlockSignals();
    if (Status status = OpenNodes(); !status) return FailCommand("top", status);
    if (plain) return PrintOnce();
    if (!can) return PrintAgain(can);
    return Show();
  }

 private:
  void BlockSignals() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) sigaddset(&wanted, signal);
    ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
    signals_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }

  Status OpenNodes() {
    std::vector<std::string> urls = options_.urls;
    if (urls.empty()) urls.emplace_back();
    for (const std::string& url : urls) {
      NodeOptions options = options_.node;
      options.url = url;
      options.timeout = std::chrono::seconds(5);
      ASSIGN_OR_RETURN(auto reader, NodeReader::Open(options));
      auto shown = std::make_unique<Shown>();
      TopNode& node = shown->model.node();
      node.address = node.name = reader->name();
      node.direct = reader->kind() == NodeReader::kThisProcess;
      node.why_direct = reader->why_direct();
      shown->reader = std::move(reader);
      shown->feed = std::make_unique<TopFeed>(*shown->reader, interval_);
      nodes_.push_back(std::move(shown));
    }
    return Ok();
  }

  std::vector<const TopNode*> Views() const {
    std::vector<const TopNode*> views;
    for (const auto& shown : nodes_) views.push_back(&shown->model.node());
    return views;
  }
  TopSize Size(size_t columns, size_t rows, bool utf8) const {
    TopSize size;
    size.columns = columns;
    size.rows = rows;
    size.ascii = options_.ascii || !utf8;
    size.now_ms = NowMs();
    size.utc_offset_s = UtcOffset();
    return size;
  }

  // False: nothing could be read of any node.
  bool ReadAll() {
    bool any = false;
    for (const auto& shown : nodes_) {
      TopUpdate update = shown->feed->ReadOnce();
      any = any || update.now.has_value();
      Apply(*shown, std::move(update));
    }
    return any;
  }

  std::string Plain() const {
    const TopSize size = Size(static_cast<size_t>(TerminalColumns(STDOUT_FILENO)), 0, LocaleIsUtf8());
    std::string out;
    if (nodes_.size() > 1) out = TopPlainText(TopNodesScreen(Views(), typed_, size)) + "\n";
    for (const TopNode* node : Views()) {
      if (nodes_.size() == 1 || node->at_ms > 0) out += TopPlainText(TopScreen(*node, typed_, size));
    }
    return out;
  }

  void Pause() const { ::poll(nullptr, 0, static_cast<int>(interval_.count() / 1'000'000)); }

  int PrintOnce() {
    bool any = ReadAll();
    // Rates come from two readings.
    if (any) {
      Pause();
      any = ReadAll() || any;
    }
    if (!any && nodes_.size() == 1)
      return FailCommand("top", nodes_[0]->reader->name() + ": " + nodes_[0]->model.node().away_why, 1);
    const std::string text = options_.json ? TopJson(Views()) : Plain();
    return PrintText(text) == 0 && any ? 0 : 1;
  }

  // A terminal without a cursor, a file or a pipe.
  int PrintAgain(const Status& why) {
    WriteNote("gpulens top: " + why.detail + ": printed every " + FormatTimeValue(interval_) +
              " instead; once: gpulens top --once");
    ::signal(SIGPIPE, SIG_IGN);
    for (bool first = true;; first = false) {
      ReadAll();
      if (!WriteAll(STDOUT_FILENO, (first ? "" : "\n") + Plain())) return 0;
      Pause();
    }
  }

  int Show() {
    const bool wanted = options_.color == "always" || (options_.color == "auto" && !NoColor());
    auto terminal = TopTerminal::Open(wanted);
    if (!terminal) return FailCommand("top", terminal.error());
    terminal_ = *std::move(terminal);
    Status status;
    for (const auto& shown : nodes_) {
      status = shown->feed->Start([this] {
        const uint64_t one = 1;
        static_cast<void>(!::write(wake_.get(), &one, sizeof one));
      });
      if (!status) break;
    }
    if (status) Loop();
    terminal_.reset();
    bool left_behind = false;
    for (const auto& shown : nodes_)
      left_behind = !shown->feed->Stop(left_behind ? Duration() : kEndTime) || left_behind;
    const int code = status ? 0 : FailCommand("top", status);
    // A thread that waits for a node uses what this owns.
    if (left_behind) std::_Exit(code);
    return code;
  }

  static bool NoColor() {
    const char* value = std::getenv("NO_COLOR");
    return value && *value;
  }

  void Loop() {
    while (!quit_) {
      Draw();
      pollfd wait[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      // Ages and times go on without a reading.
      ::poll(wait, 3, 1000);
      if (wait[1].revents != 0) TakeSignals();
      if (wait[2].revents != 0) TakeUpdates();
      if ((wait[0].revents & (POLLHUP | POLLERR)) != 0) return;
      if (wait[0].revents != 0) {
        for (int key; !quit_ && (key = terminal_->ReadKey()) != kTopNoKey;) Type(key);
      }
    }
  }

  void TakeSignals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGWINCH) terminal_->Resize();
      else if (info.ssi_signo == SIGTSTP) terminal_->Suspend();
      else quit_ = true;
    }
  }

  void TakeUpdates() {
    uint64_t count = 0;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
    for (const auto& shown : nodes_) {
      for (TopUpdate& update : shown->feed->Take()) {
        if (paused_at_ms_ == 0) Apply(*shown, std::move(update));
      }
    }
  }

  bool Overview() const { return nodes_.size() > 1 && !open_; }
  Shown& Current() { return *nodes_[std::min(node_, nodes_.size() - 1)]; }

  const TopGpu* SelectedGpu() {
    const TopNode& node = Current().model.node();
    TopTyped list = typed_;
    list.section = TopSection::kGpus;
    const std::vector<size_t> rows = TopRows(node, list);
    return rows.empty() ? nullptr : &node.gpus[rows[std::min(typed_.selected, rows.size() - 1)]];
  }

  void Draw() {
    typed_.paused_ms = paused_at_ms_ == 0 ? -1 : NowMs() - paused_at_ms_;
    if (message_until_ms_ != 0 && NowMs() > message_until_ms_) {
      typed_.message.clear();
      message_until_ms_ = 0;
    }
    const TopSize size = Size(terminal_->columns(), terminal_->rows(), terminal_->utf8());
    RequestCharts(size);
    terminal_->Draw(Overview() ? TopNodesScreen(Views(), typed_, size)
                               : TopScreen(Current().model.node(), typed_, size));
  }

  void RequestCharts(const TopSize& size) {
    TopChartRequest request;
    if (!Overview() && typed_.section == TopSection::kGpu) {
      if (const TopGpu* gpu = SelectedGpu()) {
        request.key = gpu->uuid.empty() ? "gpu.index" : "gpu.uuid";
        request.value = gpu->uuid.empty() ? gpu->index : gpu->uuid;
        request.window_s = typed_.window_s;
        request.steps = static_cast<int64_t>(size.columns >= 110 ? size.columns / 2 - 10 : size.columns - 8);
      }
    }
    if (request.value != charted_) {
      Current().model.node().charts.clear();
      charted_ = request.value;
    }
    Current().feed->Request(std::move(request));
  }

  void Report(std::string message) {
    typed_.message = std::move(message);
    message_until_ms_ = NowMs() + 4000;
  }

  size_t RowCount() { return Overview() ? nodes_.size() : TopRows(Current().model.node(), typed_).size(); }
  void Move(int64_t by) {
    const int64_t count = static_cast<int64_t>(RowCount());
    const int64_t at =
        std::clamp<int64_t>(static_cast<int64_t>(typed_.selected) + by, 0, std::max<int64_t>(0, count - 1));
    typed_.selected = static_cast<size_t>(at);
  }
  void Go(TopSection section) {
    const bool same_list =
        section == TopSection::kGpu || section == TopSection::kGpus || section == TopSection::kAll;
    const bool from_gpus = typed_.section <= TopSection::kGpu;
    if (!(same_list && from_gpus)) typed_.selected = 0;
    typed_.section = section;
  }

  void TypeFilter(int key) {
    if (key == kTopEnter) typed_.filtering = false;
    else if (key == kTopEscape) typed_.filtering = false, typed_.filter.clear();
    else if (key == kTopBackspace) {
      while (!typed_.filter.empty() && (typed_.filter.back() & 0xc0) == 0x80) typed_.filter.pop_back();
      if (!typed_.filter.empty()) typed_.filter.pop_back();
    } else if (key >= ' ' && key < 256 && typed_.filter.size() < 64) {
      typed_.filter += static_cast<char>(key);
    }
    typed_.selected = 0;
  }

  void Back() {
    if (typed_.help) typed_.help = false;
    else if (!typed_.filter.empty()) typed_.filter.clear();
    else if (!Overview() && typed_.section != TopSection::kAll) Go(TopSection::kAll);
    else if (open_) {
      open_ = false;
      typed_.selected = node_;
    }
  }

  void Type(int key) {
    if (typed_.filtering) return TypeFilter(key);
    typed_.message.clear();
    const int64_t page = static_cast<int64_t>(terminal_->rows()) - 4;
    switch (key) {
      case kTopUp:
      case 'k': return Move(-1);
      case kTopDown:
      case 'j': return Move(1);
      case kTopPageUp: return Move(-page);
      case kTopPageDown: return Move(page);
      case kTopHome: return Move(INT32_MIN);
      case kTopEnd: return Move(INT32_MAX);
      case kTopEnter: return Enter();
      case kTopEscape: return Back();
      case kTopTab: ++typed_.chart; return;
      case 's':
        typed_.sort = static_cast<TopSort>((static_cast<size_t>(typed_.sort) + 1) % kTopSorts);
        return Report("sorted by " + std::string(TopSortName(typed_.sort)));
      case '/': typed_.filtering = true; return;
      case 't': {
        const auto* at = std::ranges::find(kWindows, typed_.window_s);
        typed_.window_s = kWindows[(static_cast<size_t>(at - kWindows) + 1) % std::size(kWindows)];
        return Report("charts show the last " + std::to_string(typed_.window_s / 60) + " min");
      }
      case 'u': typed_.decimal = !typed_.decimal; return;
      case 'p': paused_at_ms_ = paused_at_ms_ == 0 ? NowMs() : 0; return;
      case 'y': return Copy();
      case 'w': return Write();
      case '?':
      case 'h': typed_.help = !typed_.help; return;
      case 'q': quit_ = true; return;
      default: break;
    }
    if (key >= '1' && key <= '6' && !Overview()) Go(static_cast<TopSection>(key - '0'));
    if (key == '0') Go(TopSection::kAll);
  }

  void Enter() {
    if (Overview()) {
      node_ = std::min(typed_.selected, nodes_.size() - 1);
      open_ = true;
      typed_.selected = 0;
      typed_.section = TopSection::kAll;
    } else if (typed_.section <= TopSection::kGpus) {
      Go(TopSection::kGpu);
    }
  }

  // The selected row without its trend's room: what the screen has.
  void Copy() {
    const TopSize size = Size(200, 0, true);
    const TopSection section = typed_.section == TopSection::kAll ? TopSection::kGpus : typed_.section;
    TopTyped alone = typed_;
    alone.section = section;
    alone.message.clear();
    const std::string text = TopPlainText(Overview() ? TopNodesScreen(Views(), alone, size)
                                                     : TopScreen(Current().model.node(), alone, size));
    // Title, host, rule and head come before the rows; of several nodes a title and a head.
    size_t line = (Overview() ? 2 : 4) + typed_.selected;
    if (!Overview() && Current().model.node().away_since_ms > 0) ++line;
    size_t at = 0;
    for (; line > 0 && at != std::string::npos; --line)
      at = text.find('\n', at) == std::string::npos ? std::string::npos : text.find('\n', at) + 1;
    if (at == std::string::npos || at >= text.size()) return Report("nothing is selected");
    terminal_->Copy(text.substr(at, text.find('\n', at) - at));
    Report("copied, if this terminal allows it (OSC 52)");
  }

  void Write() {
    std::tm when{};
    const std::time_t now = std::time(nullptr);
    char name[64] = "gpulens-top.json";
    if (::gmtime_r(&now, &when)) std::strftime(name, sizeof name, "gpulens-top-%Y%m%dT%H%M%SZ.json", &when);
    const Status written = WriteFileAtomically(name, TopJson(Views()));
    Report(written ? "written: " + std::string(name) : written.detail);
  }

  const TopOptions options_;
  Duration interval_{};
  UniqueFd signals_, wake_;
  std::vector<std::unique_ptr<Shown>> nodes_;
  std::unique_ptr<TopTerminal> terminal_;
  TopTyped typed_;
  size_t node_ = 0;
  bool open_ = false;  // a node of several
  bool quit_ = false;
  int64_t paused_at_ms_ = 0, message_until_ms_ = 0;
  std::string charted_;
};

constexpr const char* kTopFooter = R"(
  gpulens top                                      the agent here; without one, this process reads
  gpulens top https://n1:9091 https://n2:9091      several nodes; Enter opens one
  gpulens top --once > ticket.txt                  one screen as plain text
  gpulens top --demo                               simulated GPUs and engines

Keys: up down select · Enter detail · Esc back · 1-6 section · Tab charts · s sort · / filter · t window
u units · p pause · y copy · w write JSON · ? help · q quit
Exit: 0 shown · 1 nothing could be read · 2 wrong use)";

}  // namespace

void AddTop(CLI::App& app, int& code) {
  auto kept = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "Show GPUs, engines, jobs and events live in this terminal.");
  top->group("Look");
  top->add_option("URL", kept->urls, "Agents to read: http://host:9091, https://user:password@host:9091");
  AddOption(*top, "--interval", kept->interval, "Time between two readings", "D")->capture_default_str();
  top->add_flag("--once", kept->once, "Print one screen as plain text");
  top->add_flag("--json", kept->json, "Print one reading as JSON");
  top->add_option("--color", kept->color, "auto, always or never; NO_COLOR means never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  top->add_flag("--ascii", kept->ascii, "No other characters than ASCII");
  AddNodeOptions(*top, kept->node);
  top->footer(kTopFooter);
  top->callback([kept, &code] {
    // A line of log would lie across the screen.
    static_cast<void>(SetLogLevels("error"));
    code = Session(*kept).Run();
  });
}

}  // namespace gpulens
