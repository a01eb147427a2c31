// Turns a pickle of plain data into JSON, without making any object of Python.
#pragma once

#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens::torch_recorder {

// Reads what protocols 2 to 5 write of dictionaries, lists, tuples, texts, numbers, True, False and None, as
// PyTorch's flight recorder and pickle.dump do. Keys become texts, tuples lists, numbers that are not finite
// null. Bytes may come from anyone.
//
// kDataLoss: not a pickle, cut, or an opcode that makes anything else, with its place: a pickle that names a
// class or a function is refused, never followed. kExhausted: larger than 64 MiB, more than 4 million values,
// nested deeper than 32, or 32 times as
// large as JSON.
Result<std::string> PickleAsJson(std::string_view pickle);

}  // namespace gpulens::torch_recorder
