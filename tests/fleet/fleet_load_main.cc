// fleet_load: many nodes that send what one agent sent, each from a request log and a sender of its own, as
// agents do: the same choice of a gateway, retries, back-off and order.
//
//   fleet_load recording=FOLDER/STREAM urls=URL[,URL…] nodes=1000 rounds=20 interval=15 speed=4 …
//
// The recording is a file `frames` with a line "FRAME FILE ENCODING ITEMS SAMPLES" for each request
// (ENCODING: snappy is remote write 2.0, snappy1 is 1.0; of OTLP zstd, gzip, none), next to the files. Node i
// starts at frame i % spread and goes on from there, so counters rise and nodes differ in their numbers. In
// each request the text n00000 becomes the node's name, the second group of each made-up UUID
// (…-XXXX-4000-8…) the node's number, and each time is moved by one amount for each node. Everything keeps
// its length, so the bytes are those that the agent's encoder made.
//
// `speed` sends rounds that many times faster than `interval`. Prints one line of JSON.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"
#include "delivery/request_log.h"
#include "delivery/request_sender.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/proto_cursor.h"
#include "wire/packing.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr std::string_view kNameMark = "n00000";
constexpr int64_t kMsNs = 1'000'000;
// Fields of an answer that confirms.
constexpr std::string_view kWritten = "x-prometheus-remote-write-";

enum class Format : uint8_t { kOtlp, kRemoteWrite };

struct Request {
  std::string body;  // plain
  std::string encoding;
  uint32_t items = 0, samples = 0;
  std::vector<uint32_t> names, groups;  // where the node's name and number go
  std::vector<uint32_t> times;          // fixed64 of ns, or varints of ms
};

struct Frame {
  std::vector<Request> requests;
};

struct Options {
  std::string recording, urls, token, balance = "hash";
  int64_t nodes = 1000, first = 0, rounds = 10, interval = 15, speed = 1, spread = 1, drain = 120, phase = 1;
};

int Fail(std::string_view why) {
  std::fprintf(stderr, "fleet_load: %.*s\n", static_cast<int>(why.size()), why.data());
  return 1;
}

// Notes where the message has times.
class TimeFinder {
 public:
  explicit TimeFinder(Request& request) : request_(request) {}

  bool Otlp() {
    return Fields(request_.body, [&](const ProtoField& of) {
      return of.number != otlp::kResourceList || Inner(of, otlp::kScopeList, [&](const ProtoField& scope) {
               return Inner(scope, otlp::kItems,
                            [&](const ProtoField& metric) { return OtlpMetric(metric.bytes); });
             });
    });
  }
  bool RemoteWrite(bool second) {
    namespace rw = remote_write;
    const uint32_t list = second ? uint32_t{rw::kTimeSeries2} : uint32_t{rw::kTimeSeries1};
    const uint32_t exemplars = second ? uint32_t{rw::kExemplars2} : uint32_t{rw::kExemplars1};
    ProtoField whole;
    whole.bytes = request_.body;
    return Inner(whole, list, [&](const ProtoField& series) {
      return Fields(series.bytes, [&](const ProtoField& field) {
        if (second && field.number == rw::kCreated2) return Varint(field);
        if (field.number == rw::kSamples)
          return Fields(field.bytes, [&](const ProtoField& part) {
            return (part.number != rw::kTimestamp && part.number != rw::kStartTimestamp) || Varint(part);
          });
        if (field.number == exemplars && field.wire == WireType::kBytes)
          return Inner(field, rw::kExemplarTimestamp, [&](const ProtoField& part) { return Varint(part); });
        return true;
      });
    });
  }

 private:
  template <class Read>
  static bool Fields(std::string_view message, Read&& read) {
    ProtoCursor cursor(message);
    for (ProtoField field; cursor.Next(field);)
      if (!read(field)) return false;
    return !cursor.broken();
  }
  template <class Read>
  static bool Inner(const ProtoField& of, uint32_t number, Read&& read) {
    return Fields(of.bytes, [&](const ProtoField& field) { return field.number != number || read(field); });
  }
  bool OtlpMetric(std::string_view metric) {
    return Fields(metric, [&](const ProtoField& data) {
      const bool number = data.number == otlp::kGauge || data.number == otlp::kSum;
      if (!number && data.number != otlp::kHistogram && data.number != otlp::kSummary)
        return data.number != otlp::kExponentialHistogram;  // the agent sends none unless it is configured to
      return Inner(data, otlp::kPoints, [&](const ProtoField& point) {
        return Fields(point.bytes, [&](const ProtoField& field) {
          if (field.number == otlp::kStartTime || field.number == otlp::kTime) return Fixed(field);
          const bool exemplar = field.number == (number ? otlp::kNumberExemplars : otlp::kHistogramExemplars);
          if (!exemplar || data.number == otlp::kSummary || field.wire != WireType::kBytes) return true;
          return Inner(field, otlp::kExemplarTime, [&](const ProtoField& time) { return Fixed(time); });
        });
      });
    });
  }
  bool Fixed(const ProtoField& field) {
    return field.bytes.size() == 8 && (AsFixed<int64_t>(field.bytes) == 0 || Note(field));
  }
  bool Varint(const ProtoField& field) {
    return field.value == 0 || (field.bytes.size() == remote_write::kMsBytes && Note(field));
  }
  bool Note(const ProtoField& field) {
    request_.times.push_back(static_cast<uint32_t>(field.bytes.data() - request_.body.data()));
    return true;
  }

  Request& request_;
};

bool IsHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

void FindMarks(Request& request) {
  const std::string_view body = request.body;
  for (size_t at = body.find(kNameMark); at != body.npos; at = body.find(kNameMark, at + 1))
    request.names.push_back(static_cast<uint32_t>(at));
  constexpr std::string_view kRest = "-4000-8";
  for (size_t at = body.find(kRest); at != body.npos; at = body.find(kRest, at + 1))
    if (at >= 13 && body[at - 5] == '-' && IsHex(body.substr(at - 4, 4)) && IsHex(body.substr(at - 13, 8)))
      request.groups.push_back(static_cast<uint32_t>(at - 4));
}

// In the order of the file. The moment of the first frame is the latest time in it.
Result<std::vector<Frame>> ReadRecording(const std::string& folder, Format& format, int64_t& first_ns) {
  ASSIGN_OR_RETURN(const std::string lines, ReadFile(folder + "/frames", kMostBytes));
  std::vector<Frame> frames;
  first_ns = 0;
  for (std::string_view left = lines; !left.empty();) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    std::vector<std::string> words;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find(' ', at), line.size());
      words.emplace_back(line.substr(at, end - at));
      at = end + 1;
    }
    if (words.size() != 5) return Status{Code::kDataLoss, "a line of the recording is not of five words"};
    const size_t frame = ParseInt<size_t>(words[0]).value_or(0);
    if (frames.size() <= frame) frames.resize(frame + 1);
    Request& request = frames[frame].requests.emplace_back();
    request.encoding = words[2];
    request.items = ParseInt<uint32_t>(words[3]).value_or(0);
    request.samples = ParseInt<uint32_t>(words[4]).value_or(0);
    ASSIGN_OR_RETURN(const std::string packed, ReadFile(folder + "/" + words[1], kMostBytes));
    bool whole = true;
    const bool second = request.encoding == "snappy";
    if (second || request.encoding == "snappy1") whole = SnappyUnpack(packed, kMostBytes, request.body);
    else if (request.encoding == "zstd") RETURN_IF_ERROR(Unzstd(packed, kMostBytes, request.body));
    else if (request.encoding == "gzip") RETURN_IF_ERROR(Gunzip(packed, kMostBytes, request.body));
    else request.body = packed;
    format = request.encoding.starts_with("snappy") ? Format::kRemoteWrite : Format::kOtlp;
    TimeFinder finder(request);
    if (!whole || !(format == Format::kOtlp ? finder.Otlp() : finder.RemoteWrite(second)))
      return Status{Code::kDataLoss, words[1] + " is not what an agent sends"};
    FindMarks(request);
    if (frame != 0) continue;
    for (uint32_t at : request.times) {
      int64_t ns = 0;
      if (format == Format::kOtlp) {
        ns = AsFixed<int64_t>(std::string_view(request.body).substr(at, 8));
      } else {
        uint64_t ms = 0;
        ProtoCursor(std::string_view(request.body).substr(at)).Varint(ms);
        ns = static_cast<int64_t>(ms) * kMsNs;
      }
      first_ns = std::max(first_ns, ns);
    }
  }
  for (const Frame& frame : frames)
    if (frame.requests.empty()) return Status{Code::kDataLoss, "a frame of the recording is missing"};
  return frames;
}

struct Node {
  std::string name;
  char group[5] = {};
  uint64_t key = 0;
  int64_t delta_ns = 0;
  std::shared_ptr<RequestLog> log;
  std::unique_ptr<RequestSender> sender;
  std::shared_ptr<LogReader> reader;
};

class Fleet {
 public:
  Fleet(Options options, std::vector<Frame> frames, Format format, int64_t first_ns)
      : options_(std::move(options)), frames_(std::move(frames)), format_(format), first_ns_(first_ns) {}

  Status Start() {
    loop_.Start();
    ASSIGN_OR_RETURN(const std::shared_ptr<const SendSetup> setup, Setup());
    const Instant now = RealClock().Now();
    const int64_t interval = options_.interval * 1'000'000'000;
    // Sent faster than it happened, the last round is of now.
    begin_ = now;
    sim_begin_ns_ = now.unix_ns - options_.rounds * (interval - interval / options_.speed);
    for (int64_t i = 0; i < options_.nodes; ++i) {
      auto node = std::make_unique<Node>();
      const int64_t number = options_.first + i;
      char name[16];
      std::snprintf(name, sizeof name, "n%05d", static_cast<int>(number % 100'000));
      node->name = name;
      std::snprintf(node->group, sizeof node->group, "%04x", static_cast<unsigned>(number & 0xffff));
      node->key = MixBits(StableHash(node->name));
      const int64_t frame = i % options_.spread;
      node->delta_ns = (sim_begin_ns_ + Phase(i) - (first_ns_ + frame * interval)) / kMsNs * kMsNs;
      node->log = RequestLog::Open({.owner = "load", .memory_bytes = uint64_t{32} << 20}, RealClock());
      node->sender = std::make_unique<RequestSender>(setup, client_, loop_, RealClock());
      node->reader = node->log->Attach("load", {}, node->sender->waker());
      node->sender->Add(node->reader, RequestSender::kOwn);
      nodes_.push_back(std::move(node));
    }
    return Ok();
  }

  Status Run() {
    const int64_t interval = options_.interval * 1'000'000'000;
    for (int64_t round = 0; round < options_.rounds; ++round) {
      for (int64_t i = 0; i < options_.nodes; ++i) {
        const int64_t due = begin_.boot_ns + (round * interval + Phase(i)) / options_.speed;
        const int64_t left = due - RealClock().Now().boot_ns;
        if (left > 0) std::this_thread::sleep_for(Duration(left));
        else late_ns_ = std::max(late_ns_, -left);
        const auto frame = static_cast<size_t>(i % options_.spread + round);
        for (const Request& request : frames_[frame % frames_.size()].requests)
          RETURN_IF_ERROR(Send(*nodes_[static_cast<size_t>(i)], request));
      }
      std::fprintf(stderr, "round %d\n", static_cast<int>(round + 1));
    }
    const Instant end = RealClock().Now() + std::chrono::seconds(options_.drain);
    while (Waiting() != 0 && RealClock().Now().boot_ns < end.boot_ns)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Ok();
  }

  void Report() {
    RequestSender::Stats all, one;
    uint64_t delivered = 0, rejected = 0, dropped = 0;
    std::map<std::string, uint64_t> codes;
    for (const auto& node : nodes_) {
      node->sender->stats(one);
      delivered += one.signals[0].delivered;
      rejected += one.signals[0].rejected;
      all.retries += one.retries;
      all.refused += one.refused;
      all.sent_bytes += one.sent_bytes;
      for (const auto& [code, count] : one.requests) codes[code] += count;
      for (uint64_t count : node->reader->stats().dropped_records) dropped += count;
    }
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    std::printf(
        "{\"nodes\":%lld,\"rounds\":%lld,\"requests\":%llu,\"items\":%llu,\"samples\":%llu,\"plain_bytes\":%"
        "llu,"
        "\"packed_bytes\":%llu,\"delivered\":%llu,\"rejected\":%llu,\"refused\":%llu,\"dropped\":%llu,"
        "\"retries\":%llu,\"sent_bytes\":%llu,\"waiting\":%llu,\"late_s\":%.3f,\"cpu_s\":%.3f,\"wall_s\":%."
        "3f,"
        "\"first_unix_s\":%.3f,\"codes\":{",
        static_cast<long long>(options_.nodes), static_cast<long long>(options_.rounds),
        static_cast<unsigned long long>(requests_), static_cast<unsigned long long>(items_),
        static_cast<unsigned long long>(samples_), static_cast<unsigned long long>(plain_bytes_),
        static_cast<unsigned long long>(packed_bytes_), static_cast<unsigned long long>(delivered),
        static_cast<unsigned long long>(rejected), static_cast<unsigned long long>(all.refused),
        static_cast<unsigned long long>(dropped), static_cast<unsigned long long>(all.retries),
        static_cast<unsigned long long>(all.sent_bytes), static_cast<unsigned long long>(Waiting()),
        static_cast<double>(late_ns_) / 1e9, seconds(used.ru_utime) + seconds(used.ru_stime),
        static_cast<double>((RealClock().Now() - begin_).count()) / 1e9,
        static_cast<double>(sim_begin_ns_) / 1e9);
    const char* comma = "";
    for (const auto& [code, count] : codes) {
      std::printf("%s\"%s\":%llu", comma, code.c_str(), static_cast<unsigned long long>(count));
      comma = ",";
    }
    std::printf("}}\n");
  }

  void Stop() {
    const Instant now = RealClock().Now();
    for (const auto& node : nodes_) node->sender->BeginFinish(now);
    for (const auto& node : nodes_) node->reader.reset();
    nodes_.clear();
    loop_.Stop();
  }

 private:
  // Nodes send one after the other, all in one interval; with phase=0 at the same moment, as roll-ups do.
  int64_t Phase(int64_t node) const {
    return options_.phase == 0 ? 0 : options_.interval * 1'000'000'000 / options_.nodes * node;
  }

  Result<std::shared_ptr<const SendSetup>> Setup() const {
    auto setup = std::make_shared<SendSetup>();
    setup->name = "load";
    setup->signals = {"metrics"};
    setup->by_hash = options_.balance == "hash";
    setup->timeout = std::chrono::seconds(10);
    setup->backoff = {.initial = std::chrono::seconds(1), .cap = std::chrono::seconds(60)};
    std::string headers = "Content-Type: application/x-protobuf\r\n";
    const bool second = frames_[0].requests[0].encoding == "snappy";
    if (second)
      headers =
          "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\nContent-Encoding: "
          "snappy\r\n"
          "X-Prometheus-Remote-Write-Version: 2.0.0\r\n";
    else if (format_ == Format::kRemoteWrite)
      headers += "Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n";
    else if (const std::string& encoding = frames_[0].requests[0].encoding; encoding != "none")
      headers += "Content-Encoding: " + encoding + "\r\n";
    setup->routes.push_back({0, headers});
    for (std::string_view left = options_.urls; !left.empty();) {
      const std::string url(left.substr(0, left.find(',')));
      left.remove_prefix(std::min(left.size(), url.size() + 1));
      ASSIGN_OR_RETURN(const HttpUrl parsed, ParseHttpUrl(url));
      SendEndpoint& endpoint = setup->endpoints.emplace_back();
      endpoint.name = parsed.Origin();
      endpoint.hash = StableHash(parsed.Origin() + parsed.target);
      endpoint.targets.push_back(HttpTarget{parsed, {}, {}});
      endpoint.targets.back().limits.keep = kWritten;
    }
    if (setup->endpoints.empty()) return Status{Code::kInvalidArgument, "no urls"};
    setup->prepare = [](LogRecord& record, SendParts& parts, bool&) -> Status {
      SendPart& part = parts.list.emplace_back();
      std::memcpy(&part.key, record.bytes.data(), sizeof part.key);
      part.items = record.items;
      part.body = std::make_shared<const std::string>(record.bytes.substr(sizeof part.key));
      return Ok();
    };
    const std::string access =
        options_.token.empty() ? "" : "Authorization: Basic " + options_.token + "\r\n";
    setup->access = [access](size_t, size_t) -> Result<SendAccess> { return SendAccess{access, nullptr}; };
    setup->validate = [second](const HttpReply& reply, size_t) -> SendOutcome {
      const bool taken = reply.failure == HttpFailure::kNone;
      if (taken && second && reply.kept.empty())  // it took the request for an empty one of 1.0
        return {SendOutcome::kRefused, 0, "it does not confirm that anything was written"};
      if (taken) return {};
      return {reply.status == 429 || reply.status >= 500 ? SendOutcome::kAgain : SendOutcome::kRefused, 0,
              reply.detail};
    };
    return std::shared_ptr<const SendSetup>(std::move(setup));
  }

  Status Send(Node& node, const Request& request) {
    plain_ = request.body;
    for (uint32_t at : request.names) std::memcpy(plain_.data() + at, node.name.data(), kNameMark.size());
    for (uint32_t at : request.groups) std::memcpy(plain_.data() + at, node.group, 4);
    for (uint32_t at : request.times) {
      if (format_ == Format::kOtlp) {
        const int64_t ns = AsFixed<int64_t>(std::string_view(plain_).substr(at, 8)) + node.delta_ns;
        std::memcpy(plain_.data() + at, &ns, sizeof ns);
      } else {
        uint64_t ms = 0;
        ProtoCursor(std::string_view(plain_).substr(at, remote_write::kMsBytes)).Varint(ms);
        remote_write::PutMs(plain_.data() + at, static_cast<int64_t>(ms) + node.delta_ns / kMsNs);
      }
    }
    std::string_view packed = packed_;
    if (format_ == Format::kRemoteWrite) SnappyPack(plain_, packed_), packed = packed_;
    else if (request.encoding == "zstd") zstd_.Compress(plain_, packed_), packed = packed_;
    else if (request.encoding == "gzip") gzip_.Compress(plain_, packed_), packed = packed_;
    else packed = plain_;
    record_.assign(reinterpret_cast<const char*>(&node.key), sizeof node.key).append(packed);
    ++requests_;
    items_ += request.items;
    samples_ += request.samples;
    plain_bytes_ += plain_.size();
    packed_bytes_ += packed.size();
    const auto kept = node.log->Append(record_, request.items);
    return kept ? Ok() : kept.error();
  }

  uint64_t Waiting() const {
    uint64_t waiting = 0;
    for (const auto& node : nodes_) waiting += node->reader->stats().records;
    return waiting;
  }

  const Options options_;
  const std::vector<Frame> frames_;
  const Format format_;
  const int64_t first_ns_;
  IoLoop loop_;
  HttpClient client_{loop_};
  std::vector<std::unique_ptr<Node>> nodes_;
  Instant begin_;
  int64_t sim_begin_ns_ = 0, late_ns_ = 0;
  uint64_t requests_ = 0, items_ = 0, samples_ = 0, plain_bytes_ = 0, packed_bytes_ = 0;
  std::string plain_, packed_, record_;
  ZstdCompressor zstd_;
  GzipCompressor gzip_;
};

bool ReadOptions(int count, char** words, Options& out) {
  const std::map<std::string_view, std::string*> texts = {
      {"recording", &out.recording}, {"urls", &out.urls}, {"token", &out.token}, {"balance", &out.balance}};
  const std::map<std::string_view, int64_t*> numbers = {
      {"nodes", &out.nodes}, {"first", &out.first},   {"rounds", &out.rounds}, {"interval", &out.interval},
      {"speed", &out.speed}, {"spread", &out.spread}, {"drain", &out.drain},   {"phase", &out.phase}};
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const size_t sign = word.find('=');
    if (sign == word.npos) return false;
    const std::string_view key = word.substr(0, sign), value = word.substr(sign + 1);
    if (const auto text = texts.find(key); text != texts.end()) {
      *text->second = value;
    } else if (const auto number = numbers.find(key); number != numbers.end()) {
      const auto parsed = ParseInt<int64_t>(value);
      if (!parsed || *parsed < 0) return false;
      *number->second = *parsed;
    } else {
      return false;
    }
  }
  return out.nodes > 0 && out.nodes <= 10'000 && out.interval > 0 && out.speed > 0 && out.spread > 0 &&
         out.rounds > 0;
}

int Main(int count, char** words) {
  Options options;
  if (!ReadOptions(count, words, options)) return Fail("options are KEY=VALUE; the source lists them");
  Format format{};
  int64_t first_ns = 0;
  auto frames = ReadRecording(options.recording, format, first_ns);
  if (!frames) return Fail(frames.error().detail);
  if (static_cast<int64_t>(frames->size()) < options.rounds + options.spread - 1)
    return Fail("the recording has too few frames for these rounds");
  Fleet fleet(options, std::move(*frames), format, first_ns);
  Status status = fleet.Start();
  if (status.ok()) status = fleet.Run();
  if (!status.ok()) return Fail(status.detail);
  fleet.Report();
  fleet.Stop();
  return 0;
}

}  // namespace
}  // namespace gpulens

int main(int count, char** words) { return gpulens::Main(count, words); }
