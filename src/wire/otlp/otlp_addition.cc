#include "wire/otlp/otlp_addition.h"

#include "wire/otlp/otlp_fields.h"

namespace gpulens {

void OtlpAddition::Add(const AttributeSet& attributes, bool replaces) {
  std::string encoded;
  for (const auto& [key, value] : attributes) {
    bool known = false;
    for (size_t i = 0; i < size() && !known; ++i) known = this->key(i) == key;
    if (known) continue;
    encoded.clear();
    otlp::AppendAttribute(encoded, 1, key, value);
    bytes_ += key;
    bytes_.append(encoded, 1);  // a tag of one byte, which is another in each message
    ends_.push_back({static_cast<uint32_t>(key.size()), static_cast<uint32_t>(bytes_.size()), replaces});
  }
}

}  // namespace gpulens
