// The bytes of tokens: fields one after the other, a checksum, base64url. docs/tokens.md describes them.
//
// A token is input from anywhere: nothing here trusts any part of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "persist/recording.h"
#include "recovery/result/path.h"

namespace crashcut::result {

// prefix + base64url of the body and its CRC-32.
std::string seal(std::string_view prefix, std::string body);
// The body of what seal() made; the error is a sentence.
tl::expected<std::string, std::string> unseal(std::string_view prefix, std::string_view text,
                                              std::size_t bytes_most = std::size_t{4} << 20);
// The error for a token whose checksum is right and whose fields are wrong.
std::string no_crashcut_wrote_it();

class TokenWriter {
 public:
  void number(std::uint64_t value);
  void fixed(std::uint64_t value, int byte_count);
  void text(std::string_view value);
  void texts(const std::vector<std::string>& values);
  void bytes(std::string_view value);
  void model(const persist::ModelSpec& model);
  void path(const std::vector<std::uint32_t>& answers);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads field by field. Once a field is missing or wrong, ok() is false and every field reads as 0 or empty.
class TokenReader {
 public:
  explicit TokenReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number(std::uint64_t most = ~std::uint64_t{0});
  std::uint64_t fixed(std::size_t byte_count);
  std::string text();
  std::vector<std::string> texts();
  std::string bytes();
  // The text of the model is empty: only the model itself can make it from the settings.
  persist::ModelSpec model();
  std::vector<std::uint32_t> path();
  // Makes ok() false, for a field that is there and makes no sense.
  std::uint64_t refuse();
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace crashcut::result
