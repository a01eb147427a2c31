// The ledger's state as one line of JSON.
#include <cmath>

#include "base/json.h"
#include "base/number_text.h"
#include "base/text.h"
#include "ledger/ledger.h"

namespace gpulens::ledger {
namespace {

// Bounds of what is read: far above what a machine has.
constexpr size_t kMostStateBytes = 16u << 20;
constexpr size_t kMostTextBytes = 4096;
constexpr size_t kMostStateItems = 65'536;  // of all lists together
constexpr size_t kStateDepth = 8;

// JSON as it is written: commas between members and items.
class StateWriter {
 public:
  void Open(char bracket) { Next() += bracket, first_ = true; }
  void Close(char bracket) { out_ += bracket, first_ = false; }
  void Key(std::string_view key) {
    AppendJsonString(Next(), key);
    out_ += ':';
    first_ = true;
  }
  void Text(std::string_view key, std::string_view text) {
    if (text.empty()) return;
    Key(key);
    AppendJsonString(Next(), text);
  }
  void Integer(int64_t value) {
    char room[kNumberBytes];
    Next().append(room, WriteInteger(room, value));
  }
  void Integer(std::string_view key, int64_t value) { Key(key), Integer(value); }
  void Number(double value) {
    char room[kNumberBytes];
    Next().append(room, WriteNumber(room, std::isfinite(value) ? value : 0));
  }
  void Number(std::string_view key, double value) { Key(key), Number(value); }
  std::string Take() { return std::move(out_); }

 private:
  std::string& Next() {
    if (!first_) out_ += ',';
    first_ = false;
    return out_;
  }
  std::string out_;
  bool first_ = true;
};

void WriteOwner(StateWriter& json, const Owner& owner) {
  json.Open('{');
  json.Text("process", owner.process);
  json.Text("namespace", owner.name_space);
  json.Text("pod", owner.pod);
  json.Text("job", owner.job);
  json.Text("tenant", owner.tenant);
  json.Text("engine", owner.engine);
  json.Text("model", owner.model);
  json.Close('}');
}

void WriteHold(StateWriter& json, const LedgerState::Gpu::Hold& hold) {
  json.Open('{');
  json.Text("slice", hold.slice);
  if (hold.idle_since_ns) json.Integer("idle_since_ns", *hold.idle_since_ns);
  if (!hold.allocated.empty()) {
    json.Key("allocated");
    WriteOwner(json, hold.allocated);
    json.Integer("allocated_since_ns", hold.allocated_since_ns);
  }
  if (!hold.ended_ns.empty()) {
    json.Key("ended_ns");
    json.Open('[');
    for (int64_t at : hold.ended_ns) json.Integer(at);
    json.Close(']');
  }
  json.Close('}');
}

void WriteGpu(StateWriter& json, const LedgerState::Gpu& gpu) {
  json.Open('{');
  json.Text("gpu", gpu.gpu);
  json.Text("model", gpu.model);
  json.Integer("at_ns", gpu.at_ns);
  json.Integer("at_unix_ns", gpu.at_unix_ns);
  if (gpu.energy_uj) json.Integer("energy_uj", *gpu.energy_uj);
  json.Integer("energy_source", static_cast<int64_t>(gpu.energy_source));
  if (gpu.idle_watts) json.Number("idle_watts", *gpu.idle_watts);
  json.Key("idle_watts_of");
  json.Open('[');
  for (const auto& [state, watts] : gpu.idle_watts_of) {
    json.Open('[');
    json.Integer(state);
    json.Number(watts);
    json.Close(']');
  }
  json.Close(']');
  json.Key("remainders");
  json.Open('[');
  for (int64_t remainder : gpu.remainders) json.Integer(remainder);
  json.Close(']');
  json.Key("holds");
  json.Open('[');
  for (const LedgerState::Gpu::Hold& hold : gpu.holds) WriteHold(json, hold);
  json.Close(']');
  json.Close('}');
}

// Reads values and notes what is not as WriteGpu and the others write it.
class StateReader {
 public:
  explicit StateReader(std::string_view text) : json(text, kStateDepth) {}

  void Text(std::string& out) {
    if (json.Peek() != JsonScanner::kString) return Bad("a text is expected");
    out = json.Text();
    if (out.size() > kMostTextBytes) Bad("a text is too long");
  }
  int64_t Integer() {
    std::string_view number;
    if (json.Peek() != JsonScanner::kNumber || !json.Number(number)) return Bad("a number is expected"), 0;
    const auto value = JsonInteger<int64_t>(number);
    if (!value) Bad("a number is not a whole one");
    return value.value_or(0);
  }
  double Number() {
    if (json.Peek() != JsonScanner::kNumber) return Bad("a number is expected"), 0;
    const std::optional<double> value = json.Double();
    if (!value || !std::isfinite(*value)) return Bad("a number is out of range"), 0;
    return *value;
  }
  template <class Member>
  void Object(Member&& member) {
    if (json.Peek() != JsonScanner::kObject) return Bad("an object is expected");
    json.Object(member);
  }
  template <class Item>
  void Array(Item&& item) {
    if (json.Peek() != JsonScanner::kArray) return Bad("a list is expected");
    json.Array([&] {
      if (++items_ > kMostStateItems) return Bad("too many items");
      item();
    });
  }
  void Bad(const char* what) { json.Fail(what); }

  JsonScanner json;

 private:
  size_t items_ = 0;
};

void ReadOwner(StateReader& in, Owner& out) {
  in.Object([&](std::string_view key) {
    if (key == "process") in.Text(out.process);
    if (key == "namespace") in.Text(out.name_space);
    if (key == "pod") in.Text(out.pod);
    if (key == "job") in.Text(out.job);
    if (key == "tenant") in.Text(out.tenant);
    if (key == "engine") in.Text(out.engine);
    if (key == "model") in.Text(out.model);
  });
}

void ReadHold(StateReader& in, LedgerState::Gpu::Hold& out) {
  in.Object([&](std::string_view key) {
    if (key == "slice") in.Text(out.slice);
    if (key == "idle_since_ns") out.idle_since_ns = in.Integer();
    if (key == "allocated") ReadOwner(in, out.allocated);
    if (key == "allocated_since_ns") out.allocated_since_ns = in.Integer();
    if (key == "ended_ns") in.Array([&] { out.ended_ns.push_back(in.Integer()); });
  });
  if (out.allocated.empty()) out.allocated_since_ns = 0;
}

void ReadGpu(StateReader& in, LedgerState::Gpu& out) {
  in.Object([&](std::string_view key) {
    if (key == "gpu") in.Text(out.gpu);
    if (key == "model") in.Text(out.model);
    if (key == "at_ns") out.at_ns = in.Integer();
    if (key == "at_unix_ns") out.at_unix_ns = in.Integer();
    if (key == "energy_uj") out.energy_uj = in.Integer();
    if (key == "energy_source") {
      const int64_t source = in.Integer();
      if (source < 0 || source > static_cast<int64_t>(EnergySource::kPowerIntegral))
        return in.Bad("an energy source that does not exist");
      out.energy_source = static_cast<EnergySource>(source);
    }
    if (key == "idle_watts") out.idle_watts = in.Number();
    if (key == "idle_watts_of") {
      in.Array([&] {
        std::vector<double> pair;
        in.Array([&] { pair.push_back(in.Number()); });
        if (pair.size() != 2 || !(std::abs(pair[0]) <= 1000) || pair[0] != std::floor(pair[0]))
          return in.Bad("a performance state and its watts are expected");
        out.idle_watts_of.emplace_back(static_cast<int>(pair[0]), pair[1]);
      });
    }
    if (key == "remainders") in.Array([&] { out.remainders.push_back(in.Integer()); });
    if (key == "holds") in.Array([&] { ReadHold(in, out.holds.emplace_back()); });
  });
  if (out.gpu.empty()) in.Bad("a GPU without a name");
}

void ReadEngine(StateReader& in, LedgerState::Engine& out) {
  in.Object([&](std::string_view key) {
    if (key == "engine") in.Text(out.engine);
    if (key == "prefill_seconds") out.prefill_seconds = in.Number();
    if (key == "prefill_tokens") out.prefill_tokens = in.Number();
    if (key == "decode_seconds") out.decode_seconds = in.Number();
    if (key == "decode_tokens") out.decode_tokens = in.Number();
  });
  if (out.engine.empty()) in.Bad("an engine without a name");
}

}  // namespace

std::string StateText(const LedgerState& state) {
  StateWriter json;
  json.Open('{');
  json.Integer("version", 1);
  json.Text("boot_id", state.boot_id);
  json.Key("gpus");
  json.Open('[');
  for (const LedgerState::Gpu& gpu : state.gpus) WriteGpu(json, gpu);
  json.Close(']');
  json.Key("engines");
  json.Open('[');
  for (const LedgerState::Engine& engine : state.engines) {
    json.Open('{');
    json.Text("engine", engine.engine);
    json.Number("prefill_seconds", engine.prefill_seconds);
    json.Number("prefill_tokens", engine.prefill_tokens);
    json.Number("decode_seconds", engine.decode_seconds);
    json.Number("decode_tokens", engine.decode_tokens);
    json.Close('}');
  }
  json.Close(']');
  json.Close('}');
  return json.Take();
}

Result<LedgerState> ParseState(std::string_view text) {
  if (text.size() > kMostStateBytes)
    return Status(Code::kDataLoss, "the ledger's state is longer than 16 MiB");
  LedgerState state;
  StateReader in(text);
  int64_t version = 0;
  in.Object([&](std::string_view key) {
    if (key == "version") version = in.Integer();
    if (key == "boot_id") in.Text(state.boot_id);
    if (key == "gpus") in.Array([&] { ReadGpu(in, state.gpus.emplace_back()); });
    if (key == "engines") in.Array([&] { ReadEngine(in, state.engines.emplace_back()); });
  });
  if (Status status = in.json.Finish(); !status)
    return Status(Code::kDataLoss, "the ledger's state: " + status.detail);
  if (version != 1) return Status(Code::kDataLoss, "the ledger's state is not of version 1");
  return state;
}

}  // namespace gpulens::ledger
