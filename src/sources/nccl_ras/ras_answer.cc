#include "sources/nccl_ras/ras_answer.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "job_page/job_page.h"

namespace gpulens::nccl_ras {
namespace {

using job_page::Function;

constexpr size_t kLongestText = 128;

struct CountName {
  std::string_view name;
  Function function;
};
constexpr CountName kCountNames[] = {
    {"AllReduce", Function::kAllReduce},
    {"Broadcast", Function::kBroadcast},
    {"AllGather", Function::kAllGather},
    {"ReduceScatter", Function::kReduceScatter},
    {"Reduce", Function::kReduce},
    {"AlltoAll", Function::kAllToAll},
    {"Gather", Function::kGather},
    {"Scatter", Function::kScatter},
    {"Send", Function::kSend},
    {"Recv", Function::kReceive},
    {"AllGatherV", Function::kAllGatherV},
};

std::string TextOf(JsonScanner& json) { return Printable(json.Text().substr(0, kLongestText)); }

int32_t WholeOf(JsonScanner& json, int32_t fallback) {
  const auto number = json.Double();
  if (!number || !(*number >= 0 && *number <= std::numeric_limits<int32_t>::max())) return fallback;
  return static_cast<int32_t>(*number);
}

// A flag as NCCL may write it: true, a number that is not 0, a text other than "", "0", "Success", "false".
bool FlagOf(JsonScanner& json) {
  switch (json.Peek()) {
    case JsonScanner::kTrue:
    case JsonScanner::kFalse: return json.Bool().value_or(false);
    case JsonScanner::kNumber: return json.Double().value_or(0) != 0;
    case JsonScanner::kString: {
      const std::string_view text = json.Text();
      return !text.empty() && text != "0" && !EqualsIgnoringCase(text, "false") &&
             !EqualsIgnoringCase(text, "success") && !EqualsIgnoringCase(text, "ncclSuccess");
    }
    default: return json.Skip(), false;
  }
}

void ReadCounts(JsonScanner& json, RasRank& out) {
  json.Object([&](std::string_view key) {
    const auto found = std::ranges::find(kCountNames, key, &CountName::name);
    if (found == std::end(kCountNames)) return;
    const auto count = json.Unsigned();
    if (!count || *count >> 62 != 0) return;
    out.counts[static_cast<size_t>(found->function)] = *count;
    out.has_counts = true;
  });
}

void ReadRank(JsonScanner& json, RasRank& out) {
  json.Object([&](std::string_view key) {
    if (key == "rank") out.rank = WholeOf(json, -1);
    else if (key == "host") out.host = TextOf(json);
    else if (key == "pid") out.pid = WholeOf(json, 0);
    else if (key == "cuda_dev") out.cuda_device = WholeOf(json, -1);
    else if (key == "collective_counts") ReadCounts(json, out);
    else if (key == "status")
      json.Object([&](std::string_view state) {
        if (state == "init_state") out.ready = !FlagOf(json);
        else if (state == "async_error" || state == "abort_flag") out.error = FlagOf(json) || out.error;
        else if (state == "finalize_called" || state == "destroy_flag")
          out.closing = FlagOf(json) || out.closing;
      });
  });
}

void ReadMissing(JsonScanner& json, RasMissingRank& out) {
  json.Object([&](std::string_view key) {
    if (key == "rank") out.rank = WholeOf(json, -1);
    else if (key == "host") out.host = TextOf(json);
    else if (key == "pid") out.pid = WholeOf(json, 0);
    else if (key == "status")
      json.Object([&](std::string_view state) {
        if (state == "unresponsive") out.unresponsive = FlagOf(json);
        else if (state == "considered_dead") out.dead = FlagOf(json);
      });
  });
}

void ReadCommunicator(JsonScanner& json, RasCommunicator& out, size_t& ranks, uint64_t& left_out) {
  const auto read = [&](auto& list, auto&& read_one) {
    json.Array([&] {
      if (ranks >= kMostRanks) {
        ++left_out;
        return static_cast<void>(json.Skip());
      }
      auto& one = list.emplace_back();
      read_one(json, one);
      ++ranks;
    });
  };
  json.Object([&](std::string_view key) {
    if (key == "hash") {
      std::string_view hash = json.Text();
      if (hash.starts_with("0x")) hash.remove_prefix(2);
      out.hash = ParseInt<uint64_t>(hash, 16).value_or(0);
    } else if (key == "size") {
      out.size = WholeOf(json, 0);
    } else if (key == "ranks") {
      read(out.ranks, ReadRank);
    } else if (key == "missing_ranks") {
      read(out.missing, ReadMissing);
    }
  });
  const auto wrong = [&](const auto& one) { return one.rank < 0 || one.rank >= out.size; };
  left_out += std::erase_if(out.ranks, wrong) + std::erase_if(out.missing, wrong);
}

}  // namespace

Result<RasReport> ParseRasReport(std::string_view text) {
  if (text.size() > kLongestReport) return Status{Code::kExhausted, "the answer of RAS is too long"};
  RasReport out;
  size_t ranks = 0;
  bool any = false;
  JsonScanner json(text, 16);
  if (json.Peek() != JsonScanner::kObject)
    return Status{Code::kDataLoss, "the answer of RAS is no JSON object"};
  json.Object([&](std::string_view key) {
    if (key == "nccl_version") {
      if (json.Peek() == JsonScanner::kString) out.nccl_version = TextOf(json);
    } else if (key == "communicators") {
      any = true;
      json.Array([&] {
        if (out.communicators.size() >= kMostCommunicators) {
          ++out.left_out;
          return static_cast<void>(json.Skip());
        }
        RasCommunicator communicator;
        ReadCommunicator(json, communicator, ranks, out.left_out);
        if (communicator.hash != 0 && communicator.size > 0)
          out.communicators.push_back(std::move(communicator));
        else ++out.left_out;
      });
    } else if (key == "ras") {
      json.Object([&](std::string_view state) {
        if (state == "timeouts_count") out.timeouts = static_cast<uint64_t>(WholeOf(json, 0));
      });
    }
  });
  if (Status status = json.Finish(); !status) return Status{Code::kDataLoss, "RAS: " + status.detail};
  if (!any) return Status{Code::kDataLoss, "the answer of RAS has no communicators"};
  return out;
}

Result<RasEvent> ParseRasEvent(std::string_view text) {
  RasEvent out;
  JsonScanner json(text, 16);
  if (json.Peek() != JsonScanner::kObject)
    return Status{Code::kDataLoss, "the event of RAS is no JSON object"};
  json.Object([&](std::string_view key) {
    if (key == "group") out.group = TextOf(json);
    else if (key == "event") out.name = TextOf(json);
    else if (key == "details" && json.Peek() == JsonScanner::kString) out.details = TextOf(json);
    else if (key == "peer")
      json.Object([&](std::string_view peer) {
        if (peer == "host") out.host = TextOf(json);
        else if (peer == "pid") out.pid = WholeOf(json, 0);
      });
  });
  if (Status status = json.Finish(); !status) return Status{Code::kDataLoss, "RAS: " + status.detail};
  if (out.name.empty()) return Status{Code::kDataLoss, "the event of RAS has no name"};
  return out;
}

std::string TakeJsonObject(std::string& text) {
  const size_t begin = text.find('{');
  if (begin == std::string::npos) return text.clear(), std::string();
  int depth = 0;
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      std::string object = text.substr(begin, i + 1 - begin);
      text.erase(0, i + 1);
      return object;
    }
  }
  return {};
}

}  // namespace gpulens::nccl_ras
