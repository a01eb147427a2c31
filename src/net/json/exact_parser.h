// Boost.JSON's parser, but a number with a fraction or an exponent becomes the double that is nearest to it:
// the one of this Boost computes it in two roundings. Includes Boost: for json_document.cc alone.
#pragma once

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <limits>
#include <string>
#include <string_view>

#include "base/parse.h"

namespace gpulens {

// What the parser finds, put together to a value.
class ExactValues {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the parser knows these names.
  static constexpr size_t max_object_size = std::numeric_limits<size_t>::max(),
                          max_array_size = max_object_size, max_key_size = max_object_size,
                          max_string_size = max_object_size;
  // NOLINTEND(readability-identifier-naming)
  using Text = boost::json::string_view;
  using Error = boost::system::error_code;

  ExactValues() { stack_.reset(); }
  boost::json::value Release() { return stack_.release(); }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return true; }
  bool on_object_end(size_t n, Error&) { return stack_.push_object(n), true; }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(size_t n, Error&) { return stack_.push_array(n), true; }
  bool on_key_part(Text text, size_t, Error&) { return stack_.push_chars(text), true; }
  bool on_key(Text text, size_t, Error&) { return stack_.push_key(text), true; }
  bool on_string_part(Text text, size_t, Error&) { return stack_.push_chars(text), true; }
  bool on_string(Text text, size_t, Error&) { return stack_.push_string(text), true; }
  bool on_number_part(Text text, Error&) { return digits_.append(text.data(), text.size()), true; }
  bool on_int64(int64_t value, Text, Error&) { return digits_.clear(), stack_.push_int64(value), true; }
  bool on_uint64(uint64_t value, Text, Error&) { return digits_.clear(), stack_.push_uint64(value), true; }
  bool on_double(double nearly, Text text, Error&) {
    digits_.append(text.data(), text.size());
    // Beyond the range of a double: infinite or 0, as Boost has it.
    stack_.push_double(ParseDouble(digits_).value_or(nearly));
    digits_.clear();
    return true;
  }
  bool on_bool(bool value, Error&) { return stack_.push_bool(value), true; }
  bool on_null(Error&) { return stack_.push_null(), true; }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

 private:
  boost::json::value_stack stack_;
  std::string digits_;  // of a number that came in parts
};

}  // namespace gpulens
