// A host of profiler plugins for tests: it calls a plugin's table as NCCL does, with descriptors that are
// filled by testdata/nccl_layouts.tsv, which is compared with NCCL's own debug data, and never by the
// plugin's structs.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

// NCCL calls with descriptor types of its own, which is what a sanitizer would find here.
#ifdef __clang__
#define GPULENS_FOREIGN_CALL __attribute__((no_sanitize("function")))
#else
#define GPULENS_FOREIGN_CALL
#endif

namespace gpulens::nccl_plugin {

class DescriptorLayouts {
 public:
  struct Member {
    size_t offset, size;
  };
  static const DescriptorLayouts& Get() {
    static const DescriptorLayouts layouts;
    return layouts;
  }
  const Member* Find(int version, const std::string& name) const {
    auto found = members_.find({version, name});
    return found == members_.end() ? nullptr : &found->second;
  }

 private:
  DescriptorLayouts() {
    std::ifstream file(GPULENS_SOURCE_DIR "/src/inject/nccl/testdata/nccl_layouts.tsv");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('#')) continue;
      std::istringstream fields(line);
      int version = 0;
      std::string name;
      Member member{};
      fields >> version >> name >> member.offset >> member.size;
      members_[{version, name}] = member;
    }
    EXPECT_GT(members_.size(), 300u);
  }
  std::map<std::pair<int, std::string>, Member> members_;
};

// A descriptor of exactly its size on the heap, so that the sanitizer sees reads beyond it.
class NcclDescriptor {
 public:
  NcclDescriptor(int version, uint64_t type) : version_(version) {
    const auto* size = DescriptorLayouts::Get().Find(version, "sizeof");
    bytes_ = std::make_unique<unsigned char[]>(size->offset);
    Set("type", type);
  }
  // Ignored where the version has no such member, as in NCCL's own conversions.
  template <class Value>
  NcclDescriptor& Set(const std::string& member, Value value) {
    const auto* at = DescriptorLayouts::Get().Find(version_, member);
    if (!at) return *this;
    EXPECT_LE(at->size, 8u);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    std::memcpy(bytes_.get() + at->offset, &bits, at->size);
    return *this;
  }
  // The place of a member, or null.
  template <class Value>
  Value* At(const std::string& member) {
    const auto* at = DescriptorLayouts::Get().Find(version_, member);
    return at && at->size == sizeof(Value) ? reinterpret_cast<Value*>(bytes_.get() + at->offset) : nullptr;
  }
  void* get() { return bytes_.get(); }

 private:
  int version_;
  std::unique_ptr<unsigned char[]> bytes_;
};

// NCCL's conversions of strings for version 1.
inline uint8_t NumberOf(const char* text) {
  static const std::map<std::string, uint8_t> numbers{
      {"Broadcast", 0},   {"Reduce", 1},       {"AllGather", 2}, {"ReduceScatter", 3}, {"AllReduce", 4},
      {"Send", 6},        {"Recv", 7},         {"ncclInt8", 0},  {"ncclFloat16", 6},   {"ncclFloat32", 7},
      {"ncclFloat64", 8}, {"ncclBfloat16", 9}, {"TREE", 0},      {"RING", 1},          {"LL", 0},
      {"LL128", 1},       {"SIMPLE", 2}};
  return numbers.at(text);
}

class NcclHost {
 public:
  // `table`: the plugin's symbol ncclProfiler_v<version>.
  NcclHost(void* table, int version) : version_(version) {
    std::memcpy(functions_, table, sizeof functions_);
  }

  struct World {
    uint64_t hash = 0x1234;
    const char* name = "";
    int nodes = 2, ranks = 16, rank = 3;
  };
  // Returns the context. `mask` is NCCL's event mask.
  GPULENS_FOREIGN_CALL void* Init(int* mask, const World& world) {
    world_ = world;
    void* context = nullptr;
    if (version_ <= 3) {
      EXPECT_EQ(0, Function<int(void**, int*)>(1)(&context, mask));
    } else if (version_ == 4) {
      EXPECT_EQ(0,
                (Function<int(void**, int*, const char*, uint64_t, int, int, int, void*)>(1)(
                    &context, mask, world.name, world.hash, world.nodes, world.ranks, world.rank, nullptr)));
    } else {
      EXPECT_EQ(0,
                (Function<int(void**, uint64_t, int*, const char*, int, int, int, void*)>(1)(
                    &context, world.hash, mask, world.name, world.nodes, world.ranks, world.rank, nullptr)));
    }
    return context;
  }
  GPULENS_FOREIGN_CALL void* Start(void* context, NcclDescriptor& descriptor) {
    void* handle = reinterpret_cast<void*>(0x5A5A);
    EXPECT_EQ(0, Function<int(void*, void**, void*)>(2)(context, &handle, descriptor.get()));
    return handle;
  }
  GPULENS_FOREIGN_CALL void Stop(void* handle) { EXPECT_EQ(0, Function<int(void*)>(3)(handle)); }
  GPULENS_FOREIGN_CALL void Record(void* handle, int state, const uint64_t* value) {
    unsigned char arguments[16] = {};
    if (value) std::memcpy(arguments, value, sizeof *value);
    EXPECT_EQ(0, (Function<int(void*, int, void*)>(4)(handle, state, value ? arguments : nullptr)));
  }
  GPULENS_FOREIGN_CALL void Finalize(void* context) { EXPECT_EQ(0, Function<int(void*)>(5)(context)); }
  const char* name() const {
    const char* text = nullptr;
    std::memcpy(&text, functions_, sizeof text);
    return text;
  }

  struct Collective {
    const char* function = "AllReduce";
    uint64_t sequence = 0, count = 1024;
    const char* datatype = "ncclFloat32";
    int channels = 2;
    void* parent = nullptr;
    void* group = nullptr;
    const char* algorithm = "RING";
    const char* protocol = "SIMPLE";
  };
  void* StartCollective(void* context, const Collective& c) {
    NcclDescriptor d(version_, 2);
    d.Set("parentObj", c.parent).Set("rank", world_.rank).Set("coll.name", world_.name);
    d.Set("coll.commHash", world_.hash).Set("coll.seqNumber", c.sequence).Set("coll.count", c.count);
    d.Set("coll.root", int32_t{0}).Set("coll.nMaxChannels", c.channels).Set("coll.nChannels", c.channels);
    d.Set("coll.parentGroup", c.group);
    SetText(d, "coll.func", c.function), SetText(d, "coll.datatype", c.datatype);
    SetText(d, "coll.algo", c.algorithm), SetText(d, "coll.proto", c.protocol);
    return Start(context, d);
  }
  void* StartPeer(void* context, const char* function, int peer, uint64_t count, int channels) {
    NcclDescriptor d(version_, 4);
    d.Set("rank", world_.rank).Set("p2p.name", world_.name).Set("p2p.commHash", world_.hash);
    d.Set("p2p.count", count).Set("p2p.peer", peer).Set("p2p.nChannels", channels);
    SetText(d, "p2p.func", function), SetText(d, "p2p.datatype", "ncclFloat32");
    return Start(context, d);
  }
  void* StartChannel(void* context, void* parent, int channel, uint64_t timer) {
    NcclDescriptor d(version_, 64);
    d.Set("parentObj", parent).Set("kernelCh.channelId", channel).Set("kernelCh.pTimer", timer);
    return Start(context, d);
  }
  void StopChannel(void* handle, uint64_t timer) {
    if (!handle) return;
    if (version_ >= 4) Record(handle, 22, &timer);
    Stop(handle);
  }
  // One whole collective on all its channels: device times from `begin` to `end`.
  void PlayCollective(void* context, const Collective& c, uint64_t begin, uint64_t end) {
    void* handle = StartCollective(context, c);
    if (!handle) return;
    Stop(handle);
    void* channels[64];
    for (int i = 0; i < c.channels; ++i)
      channels[i] = StartChannel(context, handle, i, begin + static_cast<unsigned>(i));
    for (int i = 0; i < c.channels; ++i) StopChannel(channels[i], end - static_cast<unsigned>(i));
  }
  void* StartProxyOp(void* context, void* parent, int pid, int channel, int peer = 1) {
    NcclDescriptor d(version_, 8);
    d.Set("parentObj", parent)
        .Set("rank", world_.rank)
        .Set("proxyOp.pid", pid)
        .Set("proxyOp.channelId", channel);
    d.Set("proxyOp.peer", peer).Set("proxyOp.nSteps", int32_t{4}).Set("proxyOp.isSend", int32_t{1});
    return Start(context, d);
  }
  void* StartStep(void* context, void* parent, int step) {
    NcclDescriptor d(version_, 16);
    d.Set("parentObj", parent).Set("rank", world_.rank).Set("proxyStep.step", step);
    return Start(context, d);
  }
  // An API event (5 and later): type 512 of a collective, 1024 of a send.
  void* StartApi(void* context, uint64_t type, const char* function, const char* datatype, bool captured) {
    NcclDescriptor d(version_, type);
    const std::string part = type == 512 ? "collApi" : "p2pApi";
    d.Set(part + ".func", function).Set(part + ".datatype", datatype).Set(part + ".graphCaptured", captured);
    return Start(context, d);
  }

 private:
  template <class Signature>
  Signature* Function(size_t at) const {
    return reinterpret_cast<Signature*>(functions_[at]);
  }
  void SetText(NcclDescriptor& d, const char* member, const char* text) {
    if (version_ == 1) d.Set(member, NumberOf(text));
    else d.Set(member, text);
  }

  int version_;
  void* functions_[6];
  World world_;
};

}  // namespace gpulens::nccl_plugin
