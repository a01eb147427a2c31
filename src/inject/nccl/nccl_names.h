// NCCL's names and numbers of functions, datatypes, algorithms and protocols as those of the job page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job_page/job_page.h"

namespace gpulens::nccl_plugin {

template <class Value>
struct Named {
  const char* name;
  Value value;
};

// Text is compared each time: the strings are NCCL's, which may be unloaded and loaded elsewhere.
template <class Value, size_t kCount>
constexpr Value ValueOf(const Named<Value> (&rows)[kCount], const char* name, Value unknown) noexcept {
  if (!name) return unknown;
  for (const auto& row : rows) {
    size_t at = 0;
    while (row.name[at] == name[at] && name[at] != '\0') ++at;
    if (row.name[at] == name[at]) return row.value;
  }
  return unknown;
}

inline constexpr Named<job_page::Function> kFunctionNames[] = {
    {"AllReduce", job_page::Function::kAllReduce},
    {"AllGather", job_page::Function::kAllGather},
    {"ReduceScatter", job_page::Function::kReduceScatter},
    {"Send", job_page::Function::kSend},
    {"Recv", job_page::Function::kReceive},
    {"Broadcast", job_page::Function::kBroadcast},
    {"Reduce", job_page::Function::kReduce},
    {"AlltoAll", job_page::Function::kAllToAll},
    {"AllToAll", job_page::Function::kAllToAll},
    {"AllGatherV", job_page::Function::kAllGatherV},
    {"Gather", job_page::Function::kGather},
    {"Scatter", job_page::Function::kScatter},
};
inline constexpr Named<job_page::Datatype> kDatatypeNames[] = {
    {"ncclBfloat16", job_page::Datatype::kBfloat16},     {"ncclFloat32", job_page::Datatype::kFloat32},
    {"ncclFloat16", job_page::Datatype::kFloat16},       {"ncclInt8", job_page::Datatype::kInt8},
    {"ncclUint8", job_page::Datatype::kUint8},           {"ncclInt32", job_page::Datatype::kInt32},
    {"ncclUint32", job_page::Datatype::kUint32},         {"ncclInt64", job_page::Datatype::kInt64},
    {"ncclUint64", job_page::Datatype::kUint64},         {"ncclFloat64", job_page::Datatype::kFloat64},
    {"ncclFloat8e4m3", job_page::Datatype::kFloat8E4m3}, {"ncclFloat8e5m2", job_page::Datatype::kFloat8E5m2},
};
inline constexpr Named<job_page::Algorithm> kAlgorithmNames[] = {
    {"RING", job_page::Algorithm::kRing},
    {"TREE", job_page::Algorithm::kTree},
    {"NVLS", job_page::Algorithm::kNvls},
    {"NVLS_TREE", job_page::Algorithm::kNvlsTree},
    {"PAT", job_page::Algorithm::kPat},
    {"COLLNET_DIRECT", job_page::Algorithm::kCollNetDirect},
    {"COLLNET_CHAIN", job_page::Algorithm::kCollNetChain},
};
inline constexpr Named<job_page::Protocol> kProtocolNames[] = {
    {"SIMPLE", job_page::Protocol::kSimple},
    {"LL", job_page::Protocol::kLowLatency},
    {"LL128", job_page::Protocol::kLowLatency128},
};

// Numbers of version 1.
constexpr job_page::Function FunctionOfNumber(uint8_t number) noexcept {
  using enum job_page::Function;
  constexpr job_page::Function kNumbers[] = {kBroadcast, kReduce, kAllGather, kReduceScatter,
                                             kAllReduce, kOther,  kSend,      kReceive};
  return number < sizeof kNumbers ? kNumbers[number] : kOther;
}
constexpr job_page::Datatype DatatypeOfNumber(uint8_t number) noexcept {
  return number + 1u < static_cast<unsigned>(job_page::Datatype::kCount)
             ? static_cast<job_page::Datatype>(number + 1)
             : job_page::Datatype::kUnknown;
}
constexpr job_page::Algorithm AlgorithmOfNumber(uint8_t number) noexcept {
  return number + 1u < static_cast<unsigned>(job_page::Algorithm::kOther)
             ? static_cast<job_page::Algorithm>(number + 1)
             : job_page::Algorithm::kOther;
}
constexpr job_page::Protocol ProtocolOfNumber(uint8_t number) noexcept {
  return number + 1u < static_cast<unsigned>(job_page::Protocol::kOther)
             ? static_cast<job_page::Protocol>(number + 1)
             : job_page::Protocol::kOther;
}

constexpr job_page::Function FunctionOf(const char* name) noexcept {
  return ValueOf(kFunctionNames, name, job_page::Function::kOther);
}
constexpr job_page::Datatype DatatypeOf(const char* name) noexcept {
  return ValueOf(kDatatypeNames, name, job_page::Datatype::kUnknown);
}
// Null and "" are unknown: symmetric kernels have neither. Their algorithms have names of their own.
constexpr job_page::Algorithm AlgorithmOf(const char* name) noexcept {
  return !name || *name == '\0' ? job_page::Algorithm::kUnknown
                                : ValueOf(kAlgorithmNames, name, job_page::Algorithm::kOther);
}
constexpr job_page::Protocol ProtocolOf(const char* name) noexcept {
  return !name || *name == '\0' ? job_page::Protocol::kUnknown
                                : ValueOf(kProtocolNames, name, job_page::Protocol::kOther);
}

}  // namespace gpulens::nccl_plugin
