// Facts about the codes that drivers print: XIDs, SXids, and other kernel messages, with their sources.
// Unknown facts are empty or "unknown"; actions are never guessed. The facts are in the *.tsv files of this
// folder. Static storage; thread-safe.
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
  std::string_view sources;   // names of CodeSource rows, separated by blanks
  std::string_view date;      // of the newest of them; empty when none is dated
  std::string_view meaning;   // empty: unknown
};

struct CodeSource {
  std::string_view name, date, citation;
};

std::span<const CodeFacts> AllXids() noexcept;
std::span<const CodeFacts> AllSxids() noexcept;
std::span<const CodeFacts> AllMessages() noexcept;

// Null for an unknown code.
const CodeFacts* FindXid(int64_t code) noexcept;
const CodeFacts* FindSxid(int64_t code) noexcept;
const CodeFacts* FindMessage(std::string_view code) noexcept;

// Null for an unknown name.
const CodeSource* FindCodeSource(std::string_view name) noexcept;

// Returns the action as a sentence: "Reboot the machine."; empty: unknown.
std::string_view ActionSentence(std::string_view action) noexcept;

// Returns a text with meaning, class, action, severity and sources. `kind` is "XID", "SXid" or "message".
std::string Explain(std::string_view kind, const CodeFacts& facts);

}  // namespace gpulens
