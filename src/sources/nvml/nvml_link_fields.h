// What the NVML source reads of one link of a GPU, NVLink or C2C, and how such a reading is addressed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens::nvml {

// X(Id, "name"): in the order of LinkField. The FEC history has one field per bin.
#define GPULENS_NVML_LINK_FIELDS(X)                                 \
  X(Active, "active")                                               \
  X(Speed, "speed") /* MB/s */                                      \
  X(Version, "version")                                             \
  X(TxBytes, "tx_bytes")                                            \
  X(RxBytes, "rx_bytes")                                            \
  X(TxPackets, "tx_packets")                                        \
  X(RxPackets, "rx_packets")                                        \
  X(LowPower, "low_power")                                          \
  X(CrcFlit, "crc_flit")                                            \
  X(CrcData, "crc_data")                                            \
  X(Replay, "replay")                                               \
  X(Recovery, "recovery")                                           \
  X(EccData, "ecc_data")                                            \
  X(Malformed, "malformed")                                         \
  X(Overrun, "overrun")                                             \
  X(Receive, "receive")                                             \
  X(Remote, "remote")                                               \
  X(General, "general")                                             \
  X(Integrity, "integrity")                                         \
  X(Discard, "discard")                                             \
  X(Effective, "effective")                                         \
  X(Symbol, "symbol")                                               \
  X(Interrupt, "interrupt")                                         \
  X(ReplayBackToBack, "replay_back_to_back")                        \
  X(RecoverySuccess, "recovery_success")                            \
  X(RecoveryFailure, "recovery_failure")                            \
  X(BerRaw, "ber_raw") /* packed: see BitErrorRate */               \
  X(BerEffective, "ber_effective")                                  \
  X(BerSymbol, "ber_symbol")                                        \
  X(RemoteType, "remote_type")                                      \
  X(RemotePci, "remote_pci") /* domain << 16 | bus << 8 | device */ \
  X(RemoteLink, "remote_link")                                      \
  X(Fec0, "fec_0")                                                  \
  X(Fec1, "fec_1")                                                  \
  X(Fec2, "fec_2")                                                  \
  X(Fec3, "fec_3")                                                  \
  X(Fec4, "fec_4")                                                  \
  X(Fec5, "fec_5")                                                  \
  X(Fec6, "fec_6")                                                  \
  X(Fec7, "fec_7")                                                  \
  X(Fec8, "fec_8")                                                  \
  X(Fec9, "fec_9")                                                  \
  X(Fec10, "fec_10")                                                \
  X(Fec11, "fec_11")                                                \
  X(Fec12, "fec_12")                                                \
  X(Fec13, "fec_13")                                                \
  X(Fec14, "fec_14")                                                \
  X(Fec15, "fec_15")

enum class LinkField : uint16_t {
#define GPULENS_NVML_LINK_FIELD_ID(id, name) k##id,
  GPULENS_NVML_LINK_FIELDS(GPULENS_NVML_LINK_FIELD_ID)
#undef GPULENS_NVML_LINK_FIELD_ID
      kCount,
};
inline constexpr size_t kLinkFieldCount = static_cast<size_t>(LinkField::kCount);
inline constexpr size_t kFecBins = 16;

// A reading's part: 0 is the GPU itself, then come its NVLinks, then its C2C links.
inline constexpr unsigned kMaxLinks = 36, kMaxC2cLinks = 16;
inline constexpr unsigned kMaxLinkParts = 1 + kMaxLinks + kMaxC2cLinks;
constexpr uint8_t PartOfNvlink(unsigned link) noexcept { return static_cast<uint8_t>(1 + link); }
constexpr uint8_t PartOfC2c(unsigned link) noexcept { return static_cast<uint8_t>(1 + kMaxLinks + link); }

// How much the driver reads beyond what everybody wants; the bits of ReaderOptions::details.
enum Details : uint32_t {
  kDetailLinks = 1,     // Every link by itself.
  kDetailTopology = 2,  // The path to every other GPU.
  kDetailMore = 4,      // What few ask for: encoder capacity, capture sessions, stalls.
  kDetailSamples = 8,   // The driver's samples between two rounds.
  kDetailsAll = 15,
};

// Mantissa in bits 8 to 11, the negative exponent of ten in bits 0 to 7.
double BitErrorRate(uint64_t packed) noexcept;
// "crc_flit". `field` must be less than LinkField::kCount. Static storage.
std::string_view LinkFieldName(LinkField field) noexcept;

}  // namespace gpulens::nvml
