// What is known of the codes that drivers print: XIDs, SXids, and other kernel messages. Facts with their
// sources; what no source says is empty or "unknown", and an action is never guessed.
//
// The facts stand in the *.tsv files of this folder. Static storage; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpulens {

struct CodeFacts {
  std::string_view code;   // "79", "amdgpu.ras.umc.ue"
  std::string_view name;   // as the driver's sources call it
  std::string_view klass;  // application driver hardware memory bus thermal nvlink unknown
  std::string_view
      action;  // none restart_app reset_gpu reboot drain contact_vendor check_mechanicals unknown
  std::string_view severity;  // info warning error fatal unknown
  std::string_view sources;   // names of CodeSource rows, blanks between
  std::string_view date;      // of the newest of them; empty when none is dated
  std::string_view meaning;   // empty: nobody says
};

struct CodeSource {
  std::string_view name, date, citation;
};

std::span<const CodeFacts> AllXids() noexcept;
std::span<const CodeFacts> AllSxids() noexcept;
std::span<const CodeFacts> AllMessages() noexcept;

// Null when no source speaks of it.
const CodeFacts* FindXid(int64_t code) noexcept;
const CodeFacts* FindSxid(int64_t code) noexcept;
const CodeFacts* FindMessage(std::string_view code) noexcept;

// Null for a name that is in no table.
const CodeSource* FindCodeSource(std::string_view name) noexcept;

// What to do, as a sentence: "Reboot the machine."; empty when no source says.
std::string_view ActionSentence(std::string_view action) noexcept;

// A page for people: meaning, class, action, severity, sources. `kind` is "XID", "SXid", "message".
std::string Explain(std::string_view kind, const CodeFacts& facts);

}  // namespace gpulens
