#include "sources/torch_recorder/pickle_json.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::torch_recorder {
namespace {

constexpr size_t kMaxPickleBytes = 64u << 20;
constexpr size_t kMaxNodes = 4'000'000;
// A text of 30 bytes may be used again by 2.
constexpr size_t kMaxTextPerByte = 32, kLeastText = 64u << 10;
constexpr int kMaxDepth = 32;

enum class NodeKind : uint8_t { kNull, kTrue, kFalse, kInteger, kFloat, kText, kList, kMap, kMark };

struct PickleNode {
  NodeKind kind = NodeKind::kNull;
  int64_t integer = 0;
  double number = 0;
  std::string_view text{};           // in the pickle
  std::vector<uint32_t> children{};  // of a map: key, value, key, value
};

Status Broken(std::string_view what, size_t at) {
  return {Code::kDataLoss, "pickle: " + std::string(what) + " at byte " + std::to_string(at)};
}
Status TooMuch(const char* what) { return {Code::kExhausted, std::string("pickle: ") + what}; }

// The machine of pickle's opcodes, those of plain data alone. Nodes refer to each other by index, so a value
// that the pickle uses twice exists once.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  Result<uint32_t> Run() {
    while (true) {
      const size_t place = at_;
      const auto opcode = Unsigned(1);
      if (!opcode) return Broken("no end", place);
      if (*opcode == '.') {
        if (stack_.size() != 1 || nodes_[stack_[0]].kind == NodeKind::kMark)
          return Broken("not one value at its end", place);
        return stack_[0];
      }
      RETURN_IF_ERROR(Step(static_cast<uint8_t>(*opcode), place));
      if (nodes_.size() > kMaxNodes || stack_.size() > kMaxNodes)
        return TooMuch("more than 4,000,000 values");
    }
  }
  Status Write(uint32_t root, std::string& out) const { return Value(root, 0, out); }

 private:
  std::optional<uint64_t> Unsigned(size_t size) {
    if (bytes_.size() - at_ < size) return {};
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += size;
    return value;
  }
  uint32_t Push(PickleNode node) {
    nodes_.push_back(std::move(node));
    stack_.push_back(static_cast<uint32_t>(nodes_.size() - 1));
    return stack_.back();
  }
  void PushKind(NodeKind kind) { Push({.kind = kind}); }
  Status Cut(size_t place) { return Broken("cut short", place); }

  Status Text(size_t width, size_t place) {
    const auto size = Unsigned(width);
    if (!size || *size > bytes_.size() - at_) return Cut(place);
    Push({.kind = NodeKind::kText, .text = bytes_.substr(at_, static_cast<size_t>(*size))});
    at_ += static_cast<size_t>(*size);
    return Ok();
  }
  Status Integer(size_t width, bool with_sign, size_t place) {
    const auto value = Unsigned(width);
    if (!value) return Cut(place);
    auto number = static_cast<int64_t>(*value);
    if (with_sign && width < 8) {
      const auto shift = static_cast<unsigned>(64 - 8 * width);
      number = static_cast<int64_t>(*value << shift) >> shift;
    }
    Push({.kind = NodeKind::kInteger, .integer = number});
    return Ok();
  }
  Status Long(size_t place) {
    const auto size = Unsigned(1);
    if (!size) return Cut(place);
    if (*size > 9) return Broken("an integer of more than 64 bits", place);
    if (*size == 0) return Push({.kind = NodeKind::kInteger, .integer = 0}), Ok();
    // A ninth byte is the sign of a number above 2^63, as time stamps may be: kept where it is 0.
    RETURN_IF_ERROR(Integer(static_cast<size_t>(*size < 8 ? *size : 8), true, place));
    if (*size == 9) {
      const auto sign = Unsigned(1);
      if (!sign) return Cut(place);
      PickleNode& node = nodes_[stack_.back()];
      node = {.kind = NodeKind::kFloat, .number = static_cast<double>(static_cast<uint64_t>(node.integer))};
      if (*sign != 0) return Broken("an integer of more than 64 bits", place);
    }
    return Ok();
  }
  // Takes what lies above the last mark, and the mark.
  bool TakeToMark(std::vector<uint32_t>& out) {
    size_t mark = stack_.size();
    while (mark > 0 && nodes_[stack_[mark - 1]].kind != NodeKind::kMark) --mark;
    if (mark == 0) return false;
    out.assign(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return true;
  }
  bool TakeLast(size_t count, std::vector<uint32_t>& out) {
    if (stack_.size() < count) return false;
    out.assign(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    for (uint32_t node : out) {
      if (nodes_[node].kind == NodeKind::kMark) return false;
    }
    stack_.resize(stack_.size() - count);
    return true;
  }
  Status AddTo(NodeKind kind, const std::vector<uint32_t>& items, size_t place) {
    if (stack_.empty() || nodes_[stack_.back()].kind != kind) return Broken("nothing to add to", place);
    if (kind == NodeKind::kMap && items.size() % 2 != 0) return Broken("a key without a value", place);
    auto& children = nodes_[stack_.back()].children;
    children.insert(children.end(), items.begin(), items.end());
    return Ok();
  }
  Status Tuple(bool taken, std::vector<uint32_t> items, size_t place) {
    if (!taken) return Broken("too few values", place);
    Push({.kind = NodeKind::kList, .children = std::move(items)});
    return Ok();
  }
  Status Remember(std::optional<uint64_t> index, size_t place) {
    if (!index) return Cut(place);
    if (stack_.empty() || *index > kMaxNodes) return Broken("nothing to remember", place);
    if (memo_.size() <= *index) memo_.resize(static_cast<size_t>(*index) + 1, kNothing);
    memo_[static_cast<size_t>(*index)] = stack_.back();
    ++remembered_;
    return Ok();
  }
  Status Recall(std::optional<uint64_t> index, size_t place) {
    if (!index) return Cut(place);
    if (*index >= memo_.size() || memo_[static_cast<size_t>(*index)] == kNothing)
      return Broken("a reference to nothing", place);
    stack_.push_back(memo_[static_cast<size_t>(*index)]);
    return Ok();
  }

  Status Step(uint8_t opcode, size_t place) {
    std::vector<uint32_t> items;
    switch (opcode) {
      case 0x80: return Unsigned(1) ? Ok() : Cut(place);  // PROTO
      case 0x95: return Unsigned(8) ? Ok() : Cut(place);  // FRAME
      case 'N': return PushKind(NodeKind::kNull), Ok();
      case 0x88: return PushKind(NodeKind::kTrue), Ok();
      case 0x89: return PushKind(NodeKind::kFalse), Ok();
      case '}': return PushKind(NodeKind::kMap), Ok();
      case ']':
      case ')': return PushKind(NodeKind::kList), Ok();
      case '(': return PushKind(NodeKind::kMark), Ok();
      case 'J': return Integer(4, true, place);
      case 'K': return Integer(1, false, place);
      case 'M': return Integer(2, false, place);
      case 0x8a: return Long(place);
      case 'G': {
        const auto bits = Unsigned(8);
        if (!bits) return Cut(place);
        Push({.kind = NodeKind::kFloat, .number = std::bit_cast<double>(__builtin_bswap64(*bits))});
        return Ok();
      }
      case 'X': return Text(4, place);
      case 0x8c: return Text(1, place);
      case 0x8d: return Text(8, place);
      case 'q': return Remember(Unsigned(1), place);
      case 'r': return Remember(Unsigned(4), place);
      case 0x94: return Remember(remembered_, place);
      case 'h': return Recall(Unsigned(1), place);
      case 'j': return Recall(Unsigned(4), place);
      case 'a':
        if (!TakeLast(1, items)) return Broken("too few values", place);
        return AddTo(NodeKind::kList, items, place);
      case 'e':
        if (!TakeToMark(items)) return Broken("no mark", place);
        return AddTo(NodeKind::kList, items, place);
      case 's':
        if (!TakeLast(2, items)) return Broken("too few values", place);
        return AddTo(NodeKind::kMap, items, place);
      case 'u':
        if (!TakeToMark(items)) return Broken("no mark", place);
        return AddTo(NodeKind::kMap, items, place);
      case 't': {
        const bool taken = TakeToMark(items);
        return Tuple(taken, std::move(items), place);
      }
      case 0x85:
      case 0x86:
      case 0x87: {
        const bool taken = TakeLast(opcode - 0x84u, items);
        return Tuple(taken, std::move(items), place);
      }
      default: break;
    }
    char text[64];
    std::snprintf(text, sizeof text, "opcode 0x%02x, which is not plain data,",
                  static_cast<unsigned>(opcode));
    return Broken(text, place);
  }

  static void Quoted(std::string_view text, std::string& out) {
    out += '"';
    for (const char letter : text) {
      if (letter == '"' || letter == '\\') out += '\\', out += letter;
      else if (static_cast<unsigned char>(letter) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(letter));
        out += escaped;
      } else {
        out += letter;
      }
    }
    out += '"';
  }
  Status Key(const PickleNode& node, std::string& out) const {
    if (node.kind == NodeKind::kText) return Quoted(node.text, out), Ok();
    if (node.kind != NodeKind::kInteger) return {Code::kDataLoss, "pickle: a key that is no text"};
    out += '"' + std::to_string(node.integer) + '"';
    return Ok();
  }
  Status Value(uint32_t index, int depth, std::string& out) const {
    if (depth > kMaxDepth) return TooMuch("nested deeper than 32");
    if (out.size() > kLeastText + kMaxTextPerByte * bytes_.size())
      return TooMuch("larger than 32 times itself as JSON");
    const PickleNode& node = nodes_[index];
    switch (node.kind) {
      case NodeKind::kMark: return {Code::kDataLoss, "pickle: a mark as a value"};
      case NodeKind::kNull: out += "null"; break;
      case NodeKind::kTrue: out += "true"; break;
      case NodeKind::kFalse: out += "false"; break;
      case NodeKind::kInteger: out += std::to_string(node.integer); break;
      case NodeKind::kFloat: {
        char text[40];
        std::snprintf(text, sizeof text, "%.17g", node.number);
        out += std::isfinite(node.number) ? text : "null";
        break;
      }
      case NodeKind::kText: Quoted(node.text, out); break;
      case NodeKind::kList:
      case NodeKind::kMap: {
        const bool map = node.kind == NodeKind::kMap;
        out += map ? '{' : '[';
        for (size_t i = 0; i < node.children.size(); ++i) {
          if (i > 0) out += map && i % 2 == 1 ? ':' : ',';
          if (map && i % 2 == 0) RETURN_IF_ERROR(Key(nodes_[node.children[i]], out));
          else RETURN_IF_ERROR(Value(node.children[i], depth + 1, out));
        }
        out += map ? '}' : ']';
        break;
      }
    }
    return Ok();
  }

  static constexpr uint32_t kNothing = ~uint32_t{0};
  const std::string_view bytes_;
  size_t at_ = 0;
  std::vector<PickleNode> nodes_;
  std::vector<uint32_t> stack_, memo_;
  uint64_t remembered_ = 0;
};

}  // namespace

Result<std::string> PickleAsJson(std::string_view pickle) {
  if (pickle.size() > kMaxPickleBytes) return TooMuch("larger than 64 MiB");
  PickleMachine machine(pickle);
  ASSIGN_OR_RETURN(const uint32_t root, machine.Run());
  std::string out;
  RETURN_IF_ERROR(machine.Write(root, out));
  return out;
}

}  // namespace gpulens::torch_recorder
