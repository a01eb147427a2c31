// Which processes look like LLM engines, at which ports a page may be, and what a page is. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::local_listeners {

// The engine that a process seems to be by its name and arguments, as the tables of engines call it
// ("vllm"); empty: it does not look like one. A guess that decides only who is asked: the page decides.
std::string_view LooksLike(std::string_view name, const std::vector<std::string>& args);

// Programs that are known to be something else, whatever port they have.
bool IsSomethingElse(std::string_view name);

// The ports that the arguments name for requests or metrics: --port 8000, --port=8000, -p 8000,
// --metrics-port, --listen 0.0.0.0:8000. Not those of their inner traffic (--nccl-port, --master-port, gRPC
// …): what listens there may not understand a request.
std::vector<uint16_t> NamedPorts(const std::vector<std::string>& args);

// Whether an engine of the tables listens there by default.
bool IsEnginePort(uint16_t port);
// The GPU exporter that listens there by default, as `kind` of a target calls it ("dcgm"); empty: none.
std::string_view ExporterAt(uint16_t port);
// The paths at which pages may be: that of `engine` first, then those of engines with that port, then
// /metrics; each once.
std::vector<std::string_view> PathsFor(std::string_view engine, uint16_t port);

// What the page is, as `kind` of a target calls it: the engine whose families are on it, or "dcgm"; empty:
// neither. The longest prefix decides.
std::string_view KindOfPage(std::string_view page);

}  // namespace gpulens::local_listeners
