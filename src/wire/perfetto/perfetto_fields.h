// Numbers of Perfetto's messages that are written, from its protos/perfetto/trace (each message in the file
// of its name) at release 50 and later; tests/e2e/test_trace.py reads them with the classes of the `perfetto`
// package.
#pragma once

#include <cstdint>

namespace gpulens::perfetto {

inline constexpr uint32_t kTracePacket = 1;  // Trace

// TracePacket
inline constexpr uint32_t kPacketClocks = 6, kPacketTime = 8, kPacketSequence = 10, kPacketEvent = 11,
                          kPacketInterned = 12, kPacketFlags = 13, kPacketDefaults = 59, kPacketTrack = 60,
                          kPacketAttributes = 126;
inline constexpr uint32_t kStateCleared = 1, kNeedsState = 2;  // SequenceFlags

// ClockSnapshot, its Clock, and BuiltinClock
inline constexpr uint32_t kSnapshotClock = 1, kSnapshotPrimary = 2, kClockId = 1, kClockTime = 2;
inline constexpr int32_t kRealtime = 1;

inline constexpr uint32_t kDefaultsClock = 58;  // TracePacketDefaults

// TraceAttributes and its Attribute; readers before 2026 skip them
inline constexpr uint32_t kAttribute = 1, kAttributeKey = 1, kAttributeText = 3;

// TrackDescriptor, ChildTracksOrdering, SiblingMergeBehavior
inline constexpr uint32_t kTrackUuid = 1, kTrackName = 2, kTrackParent = 5, kTrackCounter = 8,
                          kTrackChildOrder = 11, kTrackRank = 12, kTrackDescription = 14, kTrackMerge = 15;
inline constexpr int32_t kOrderExplicit = 3, kMergeNone = 2;

// CounterDescriptor and its Unit
inline constexpr uint32_t kCounterUnit = 3, kCounterUnitName = 6;
inline constexpr int32_t kUnitBytes = 3;

// TrackEvent and its Type
inline constexpr uint32_t kEventAnnotation = 4, kEventType = 9, kEventNameIid = 10, kEventTrack = 11,
                          kEventDouble = 44;
inline constexpr int32_t kTypeBegin = 1, kTypeEnd = 2, kTypeInstant = 3, kTypeCounter = 4;

// DebugAnnotation
inline constexpr uint32_t kAnnotationNameIid = 1, kAnnotationBool = 2, kAnnotationInt = 4,
                          kAnnotationDouble = 5, kAnnotationText = 6;

// InternedData, EventName, DebugAnnotationName
inline constexpr uint32_t kInternedNames = 2, kInternedKeys = 3, kInternedIid = 1, kInternedName = 2;

}  // namespace gpulens::perfetto
