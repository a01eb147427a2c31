// Readings of GpuReader that one call or a few give together: a table of functions, each with the fields that
// it reads. A field's tier in nvml_fields.h decides how often its function is called.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "reader/process/library_caller.h"
#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/reader/gpu_identity.h"
#include "sources/nvml/reader/nvml_library.h"

namespace gpulens::nvml {

// Receives the readings of one round. `link` 0: the GPU itself.
class ReadingSink {
 public:
  virtual void Emit(uint8_t link, uint16_t field, ReadStatus status, int64_t raw) = 0;

 protected:
  ~ReadingSink() = default;
};

// What functions have learnt of the GPU; void when it is attached again.
struct ItemState {
  reader::QueryBackoff memory_v2{};
  int64_t now_ns = 0;        // of the round
  int mig_mode = -1;         // -1: not read yet
  bool mig_changed = false;  // since the last round: all that was learnt is void
};

struct FieldNumber {
  template <class Number>
  FieldNumber(Field to, Number number) : field(to), raw(static_cast<int64_t>(number)) {}

  Field field;
  int64_t raw;
};

// What a function works with.
struct ItemContext {
  NvmlCaller& caller;
  const GpuIdentity& identity;
  ReadingSink& sink;
  ItemState& state;
  const std::string& sysfs;   // where the memory of a GPU that is a NUMA node is read
  const std::string& procfs;  // where that of a GPU without memory of its own is read

  // Calls a function about the GPU. The library's code.
  template <class Function, class... Arguments>
  int Do(Function NvmlSymbols::* function, Arguments... arguments) const {
    return caller.Do(caller.fn().*function, identity.device, arguments...);
  }
  void Emit(Field field, int64_t raw) const { Emit(field, ReadStatus::kOk, raw); }
  void Emit(Field field, ReadStatus status, int64_t raw) const {
    sink.Emit(0, static_cast<uint16_t>(field), status, raw);
  }
  // Emits the numbers of a call that succeeded; returns the call's code.
  int EmitIf(int code, std::initializer_list<FieldNumber> numbers) const {
    if (code != kSuccess) return code;
    for (const FieldNumber& number : numbers) Emit(number.field, number.raw);
    return code;
  }
};

struct GpuItem {
  // Returns the library's code; not kSuccess: nothing was emitted, and the code holds for all fields.
  int (*read)(const ItemContext&) = nullptr;
  std::array<Field, 6> fields{};  // Field::kCount after the last
  uint32_t details = 0;           // read only with one of these Details; 0: always
};
// Static storage.
std::span<const GpuItem> GpuItems() noexcept;

// A field value of any type as an unsigned number; a negative one as its bits.
uint64_t UnsignedOf(unsigned value_type, const Value& value) noexcept;

}  // namespace gpulens::nvml
