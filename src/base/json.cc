#include "base/json.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens {
Result<JsonDocument> JsonDocument::Parse(std::string_view text) {
  if (text.size() > kMaxBytes)
    return Status{Code::kExhausted, "JSON of " + std::to_string(text.size()) + " bytes"};
  JsonDocument document;
  JsonScanner json(text, kMaxDepth);
  if (document.Read(json, document.root_) && !json.AtEnd()) json.Fail("unexpected data after the end");
  if (!json.failed() && !IsUtf8(text)) json.Fail("not UTF-8");
  if (json.code() == Code::kExhausted) return Status{Code::kExhausted, "JSON is nested too deep"};
  if (json.failed())
    return Status{json.code(), "invalid JSON at byte " + std::to_string(json.at()) + ": " + json.what()};
  return document;
}

JsonDocument::Node JsonDocument::Store(std::string_view text, JsonScanner::Kind kind) {
  const Node node{
      .kind = kind, .at = static_cast<uint32_t>(texts_.size()), .size = static_cast<uint32_t>(text.size())};
  texts_ += text;
  return node;
}

bool JsonDocument::Read(JsonScanner& json, Node& out) {
  out.kind = json.Peek();
  std::string_view text;
  if (out.kind == JsonScanner::kString || out.kind == JsonScanner::kNumber) {
    if (!(out.kind == JsonScanner::kString ? json.String(text) : json.Number(text))) return false;
    out = Store(text, out.kind);
    return true;
  }
  const bool object = out.kind == JsonScanner::kObject;
  if (!object && out.kind != JsonScanner::kArray) return json.Word();
  if (!json.Enter()) return false;
  std::vector<Node> children;
  for (bool begun = false; object ? json.NextMember(begun, text) : json.NextItem(begun);) {
    const Node key = Store(object ? text : "", JsonScanner::kString);
    Node child;
    if (!Read(json, child)) return false;
    child.key_at = key.at;
    child.key_size = key.size;
    children.push_back(child);
  }
  if (object) SortMembers(children);
  out.at = static_cast<uint32_t>(nodes_.size());
  out.size = static_cast<uint32_t>(children.size());
  nodes_.insert(nodes_.end(), children.begin(), children.end());
  return !json.failed();
}

// Not std::stable_sort: clang 19 rejects that of libstdc++ 12.
template <class Element, class Less>
static void SortStably(std::vector<Element>& elements, const Less& less) {
  std::vector<size_t> order(elements.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return less(elements[a], elements[b]) || (!less(elements[b], elements[a]) && a < b);
  });
  std::vector<Element> sorted;
  sorted.reserve(order.size());
  for (const size_t from : order) sorted.push_back(elements[from]);
  elements = std::move(sorted);
}

// Also leaves the last of the members with one key, at the place of the first.
void JsonDocument::SortMembers(std::vector<Node>& members) const {
  const auto less = [this](const Node& a, const Node& b) { return KeyOf(a) < KeyOf(b); };
  SortStably(members, less);
  size_t kept = 0;
  for (const Node& member : members) {
    if (kept == 0 || KeyOf(members[kept - 1]) != KeyOf(member)) {
      members[kept++] = member;
      continue;
    }
    const uint32_t first = members[kept - 1].key_at;
    members[kept - 1] = member;
    members[kept - 1].key_at = first;
  }
  members.resize(kept);
}

const JsonDocument::Node* JsonDocument::Find(std::string_view pointer) const {
  const Node* node = &root_;
  if (!pointer.empty() && pointer.front() != '/') return nullptr;
  std::string token;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    token.clear();
    for (; !pointer.empty() && pointer.front() != '/'; pointer.remove_prefix(1)) {
      const bool escape = pointer.starts_with("~0") || pointer.starts_with("~1");
      token += escape ? pointer[1] == '0' ? '~' : '/' : pointer.front();
      if (escape) pointer.remove_prefix(1);
    }
    const auto children = nodes_.begin() + node->at;
    if (node->kind == JsonScanner::kArray) {
      const auto index = ParseInt<uint32_t>(token);
      if (!index || *index >= node->size) return nullptr;
      node = &children[*index];
    } else if (node->kind == JsonScanner::kObject) {
      const auto at = std::lower_bound(children, children + node->size, token,
                                       [this](const Node& a, std::string_view b) { return KeyOf(a) < b; });
      if (at == children + node->size || KeyOf(*at) != token) return nullptr;
      node = &*at;
    } else {
      return nullptr;
    }
  }
  return node;
}

const JsonDocument::Node* JsonDocument::Find(std::string_view pointer, JsonScanner::Kind kind) const {
  const Node* node = Find(pointer);
  return node && node->kind == kind ? node : nullptr;
}

std::optional<std::string> JsonDocument::Text(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kString);
  return node ? std::optional<std::string>(At(node->at, node->size)) : std::nullopt;
}

std::optional<double> JsonDocument::Number(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kNumber);
  return node ? ParseSaturated(At(node->at, node->size)) : std::nullopt;
}

std::optional<bool> JsonDocument::Truth(std::string_view pointer) const {
  if (Find(pointer, JsonScanner::kTrue)) return true;
  return Find(pointer, JsonScanner::kFalse) ? std::optional(false) : std::nullopt;
}

bool JsonDocument::IsNull(std::string_view pointer) const { return Find(pointer, JsonScanner::kNull); }

std::optional<std::vector<std::string>> JsonDocument::Names(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kObject);
  if (!node) return std::nullopt;
  std::vector<Node> members(nodes_.begin() + node->at, nodes_.begin() + node->at + node->size);
  // Stable: an empty key, which is sorted first, may be at the place of the next one.
  SortStably(members, [](const Node& a, const Node& b) { return a.key_at < b.key_at; });
  std::vector<std::string> names;
  for (const Node& member : members) names.emplace_back(KeyOf(member));
  return names;
}

size_t JsonDocument::Size(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kArray);
  return node ? node->size : 0;
}

}  // namespace gpulens
