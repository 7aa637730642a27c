#include "recovery/result/token_bytes.h"

#include <fmt/format.h>

#include <boost/crc.hpp>

#include "recovery/result/base64url.h"

namespace crashcut::result {
namespace {

constexpr std::uint64_t kStringMost = 4095;
constexpr std::uint64_t kTextsMost = 1024;
constexpr std::uint64_t kSettingsMost = 64;
constexpr std::uint64_t kBytesMost = std::uint64_t{4} << 20;
constexpr std::uint64_t kAnswersMost = 1'000'000;
constexpr std::size_t kSumBytes = 4;

std::uint32_t crc_of(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace

std::string seal(std::string_view prefix, std::string body) {
  TokenWriter sum;
  sum.fixed(crc_of(body), kSumBytes);
  return std::string(prefix) + to_base64url(body + sum.take());
}

tl::expected<std::string, std::string> unseal(std::string_view prefix, std::string_view text, std::size_t bytes_most) {
  if (text.size() > bytes_most) return tl::unexpected(std::string("This is too long for a token."));
  if (!text.starts_with(prefix)) {
    return tl::unexpected(fmt::format("This is not a token of this version: those begin with {}.", prefix));
  }
  const std::string damaged = "The token is damaged: was all of it copied?";
  auto bytes = from_base64url(text.substr(prefix.size()));
  if (!bytes || bytes->size() < kSumBytes) return tl::unexpected(damaged);
  const std::size_t size = bytes->size() - kSumBytes;
  const std::uint64_t sum = TokenReader(std::string_view(*bytes).substr(size)).fixed(kSumBytes);
  bytes->resize(size);
  if (sum != crc_of(*bytes)) return tl::unexpected(damaged);
  return *std::move(bytes);
}

std::string no_crashcut_wrote_it() { return "The token holds what no crashcut writes."; }

void TokenWriter::number(std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
  bytes_ += static_cast<char>(value);
}

void TokenWriter::fixed(std::uint64_t value, int byte_count) {
  for (int i = 0; i < byte_count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 255);
}

void TokenWriter::text(std::string_view value) {
  number(value.size());
  bytes_ += value;
}

void TokenWriter::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
}

void TokenWriter::bytes(std::string_view value) {
  number(value.size());
  bytes_ += value;
}

// Each setting: its name, the index of its kind (bool, number, text), its value.
void TokenWriter::model(const persist::ModelSpec& model) {
  number(model.settings.size());
  for (const auto& [name, setting] : model.settings) {
    text(name);
    number(setting.index());
    if (const auto* flag = std::get_if<bool>(&setting)) number(*flag ? 1 : 0);
    if (const auto* count = std::get_if<std::uint64_t>(&setting)) number(*count);
    if (const auto* words = std::get_if<std::string>(&setting)) text(*words);
  }
}

// Runs of equal answers: 2 * (answer + 1, or 0 for kCrashAgain), plus 1 where the number of repeats follows.
void TokenWriter::path(const std::vector<std::uint32_t>& answers) {
  number(answers.size());
  for (std::size_t i = 0; i < answers.size();) {
    std::size_t end = i + 1;
    while (end < answers.size() && answers[end] == answers[i]) ++end;
    const std::uint64_t code = 2 * (answers[i] == kCrashAgain ? 0 : std::uint64_t{answers[i]} + 1);
    const std::size_t count = end - i;
    number(code + (count > 2 ? 1 : 0));
    if (count > 2) number(count - 1);
    if (count == 2) number(code);
    i = end;
  }
}

std::uint64_t TokenReader::refuse() {
  ok_ = false;
  bytes_ = {};
  return 0;
}

std::uint64_t TokenReader::number(std::uint64_t most) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = fixed(1);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 127) << shift;
    if (byte < 128) return value <= most ? value : refuse();
  }
  return refuse();
}

std::uint64_t TokenReader::fixed(std::size_t byte_count) {
  if (bytes_.size() < byte_count) return refuse();
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < byte_count; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
  bytes_.remove_prefix(byte_count);
  return value;
}

std::string TokenReader::text() {
  const std::size_t size = number(kStringMost);
  if (bytes_.size() < size || bytes_.substr(0, size).find('\0') != std::string_view::npos) refuse();
  std::string value(bytes_.substr(0, ok_ ? size : 0));
  bytes_.remove_prefix(value.size());
  return value;
}

std::vector<std::string> TokenReader::texts() {
  std::vector<std::string> values;
  const std::uint64_t count = number(kTextsMost);
  for (std::uint64_t i = 0; ok_ && i < count; ++i) values.push_back(text());
  return values;
}

std::string TokenReader::bytes() {
  const std::size_t size = number(kBytesMost);
  if (bytes_.size() < size) refuse();
  std::string value(bytes_.substr(0, ok_ ? size : 0));
  bytes_.remove_prefix(value.size());
  return value;
}

persist::ModelSpec TokenReader::model() {
  persist::ModelSpec model;
  const std::uint64_t count = number(kSettingsMost);
  for (std::uint64_t i = 0; ok_ && i < count; ++i) {
    const std::string name = text();
    switch (number(2)) {
      case 0:
        model.settings.emplace_back(name, number(1) != 0);
        break;
      case 1:
        model.settings.emplace_back(name, number());
        break;
      default:
        model.settings.emplace_back(name, text());
    }
  }
  return model;
}

std::vector<std::uint32_t> TokenReader::path() {
  std::vector<std::uint32_t> answers;
  const std::uint64_t length = number(kAnswersMost);
  while (ok_ && answers.size() < length) {
    const std::uint64_t code = number(2 * std::uint64_t{kCrashAgain} + 1);
    const std::uint64_t more = code % 2 == 1 ? number(length - answers.size() - 1) : 0;
    const std::uint32_t answer = code / 2 == 0 ? kCrashAgain : static_cast<std::uint32_t>(code / 2 - 1);
    if (ok_) answers.insert(answers.end(), more + 1, answer);
  }
  return answers;
}

}  // namespace crashcut::result
