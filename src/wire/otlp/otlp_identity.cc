#include "wire/otlp/otlp_identity.h"

#include "base/parse.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

constexpr uint32_t kKey = 1, kValue = 2, kString = 1, kInt = 3;
constexpr int64_t kMostGpus = 4096;

struct Value {
  std::string_view text;
  int64_t number = -1;
};

Value ReadValue(std::string_view any_value) noexcept {
  ProtoCursor cursor(any_value);
  ProtoField field;
  Value value;
  while (cursor.Next(field)) {
    if (field.number == kString && field.wire == WireType::kBytes) value = {field.bytes, -1};
    else if (field.number == kInt && field.wire == WireType::kVarint)
      value = {{}, static_cast<int64_t>(field.value)};
  }
  return value;
}

int64_t GpuIndex(const Value& value) noexcept {
  int64_t index = value.number;
  if (!value.text.empty()) index = ParseInt<int64_t>(value.text).value_or(-1);
  return index >= 0 && index < kMostGpus ? index : -1;
}

// Prometheus has no dots: what its labels say under the same name is the same.
bool Is(std::string_view key, std::string_view name) noexcept {
  if (key.size() != name.size()) return false;
  for (size_t i = 0; i < key.size(); ++i)
    if (key[i] != name[i] && !(name[i] == '.' && key[i] == '_')) return false;
  return true;
}

// dcgm-exporter's label, which others may mean otherwise.
void TakeUuid(std::string_view text, OtlpIdentity& out) noexcept {
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) out.gpu_uuid = text;
}

}  // namespace

bool IsIdentityKey(std::string_view key) noexcept {
  switch (key.size()) {
    case 4: return key == "UUID";
    case 6: return key == "gpu_id";
    case 8: return Is(key, "gpu.uuid");
    case 9: return Is(key, "gpu.index");
    case 11: return Is(key, "k8s.pod.uid");
    case 12: return Is(key, "container.id");
    default: return false;
  }
}

std::string_view KeyOf(std::string_view key_value) noexcept {
  ProtoCursor cursor(key_value);
  ProtoField field;
  std::string_view key;
  while (cursor.Next(field))
    if (field.number == kKey && field.wire == WireType::kBytes) key = field.bytes;
  return key;
}

void TakeIdentity(std::string_view key_value, OtlpIdentity& out) noexcept {
  ProtoCursor cursor(key_value);
  ProtoField field;
  std::string_view key, any_value;
  while (cursor.Next(field)) {
    if (field.wire != WireType::kBytes) continue;
    if (field.number == kKey) key = field.bytes;
    if (field.number == kValue) any_value = field.bytes;
  }
  const bool known = IsIdentityKey(key) || key == "host.name" || key == "host.id" || key == "k8s.node.name";
  if (!known) return;
  const Value value = ReadValue(any_value);
  if (Is(key, "k8s.pod.uid")) out.pod_uid = value.text;
  else if (Is(key, "container.id")) out.container_id = value.text;
  else if (key == "host.name") out.host_name = value.text;
  else if (key == "host.id") out.host_id = value.text;
  else if (key == "k8s.node.name") out.k8s_node_name = value.text;
  else if (Is(key, "gpu.uuid")) out.gpu_uuid = value.text;
  else if (key == "UUID") TakeUuid(value.text, out);
  else out.gpu_index = GpuIndex(value);
}

}  // namespace gpulens
