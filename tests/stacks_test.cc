// Unwinding another process: what is known, what is not, and bytes that make no sense.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "recovery/stacks/code_file.h"
#include "recovery/stacks/unwind_rules.h"

namespace crashcut::stacks {
namespace {

constexpr std::uint64_t kSection = 0x2000, kFunction = 0x1000, kLength = 0x20;

void put(std::string& out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}
std::string record(std::uint32_t id, std::string body) {
  while (body.size() % 4 != 0) body += '\0';  // DW_CFA_nop
  std::string out;
  put(out, static_cast<std::uint32_t>(body.size() + 4));
  put(out, id);
  return out + body;
}

// push %rbp; mov %rsp,%rbp; ...: as compilers describe it.
std::string frames_of(const std::string& instructions, const std::string& augmentation = "zR") {
  std::string common("\1", 1);
  common += augmentation + '\0';
  common += std::string("\x01\x78\x10\x01\x1b", 5);  // code by 1, data by -8, return address 16; encoding: from here
  common += std::string("\x0c\x07\x08\x90\x01", 5);  // frame: rsp + 8; return address: frame - 8
  std::string frames = record(0, common);
  const std::uint64_t at = kSection + frames.size() + 8;  // of the address
  std::string own;
  put(own, static_cast<std::uint32_t>(kFunction - at));
  put(own, kLength);
  own += '\0';
  return frames + record(static_cast<std::uint32_t>(frames.size() + 4), own + instructions) + std::string(4, '\0');
}
const std::string kPush("\x41\x0e\x10\x86\x02\x43\x0d\x06", 8);

class Memory {
 public:
  std::map<std::uint64_t, std::uint64_t> words;
  ReadWord reader() const {
    return [this](std::uint64_t address) {
      const auto found = words.find(address);
      return found == words.end() ? std::nullopt : std::optional(found->second);
    };
  }
};

Registers at(std::uint64_t code, std::uint64_t stack) {
  Registers registers;
  registers.at[kReturnAddress] = code;
  registers.at[kStackPointer] = stack;
  return registers;
}

TEST(UnwindRules, OfEachPlaceOfAFunction) {
  const UnwindRules rules(frames_of(kPush), kSection);
  EXPECT_FALSE(rules.row_at(kFunction - 1));
  EXPECT_FALSE(rules.row_at(kFunction + kLength));
  const Memory memory{{{0x7000, 0x111}, {0x7008, 0x222}, {0x7010, 0x333}, {0x7018, 0x444}}};
  const auto caller = [&](std::uint64_t code, const Registers& registers) {
    const auto row = rules.row_at(code);
    return row ? caller_of(*row, registers, memory.reader()) : std::nullopt;
  };
  const auto first = caller(kFunction, at(kFunction, 0x7000));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->at[kReturnAddress], 0x111u);
  EXPECT_EQ(first->at[kStackPointer], 0x7008u);
  EXPECT_FALSE(first->at[kFramePointer]);
  const auto pushed = caller(kFunction + 1, at(kFunction + 1, 0x7000));
  ASSERT_TRUE(pushed);
  EXPECT_EQ(pushed->at[kReturnAddress], 0x222u);
  EXPECT_EQ(pushed->at[kFramePointer], 0x111u);
  // The frame is found by a register that nothing has saved: nobody knows.
  EXPECT_FALSE(caller(kFunction + 8, at(kFunction + 8, 0x7000)));
  Registers known = at(kFunction + 8, 0x7000);
  known.at[kFramePointer] = 0x7010;
  const auto body = caller(kFunction + 8, known);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->at[kReturnAddress], 0x444u);
  EXPECT_EQ(body->at[kFramePointer], 0x333u);
  EXPECT_EQ(body->at[kStackPointer], 0x7020u);
  // Memory that cannot be read.
  EXPECT_FALSE(caller(kFunction, at(kFunction, 0x9000)));
}

TEST(UnwindRules, WhatIsNotUnderstoodHasNoAnswer) {
  EXPECT_TRUE(UnwindRules(frames_of(kPush), kSection).row_at(kFunction));
  EXPECT_FALSE(UnwindRules(frames_of(kPush, "zX"), kSection).row_at(kFunction));
  EXPECT_FALSE(UnwindRules(frames_of(kPush, "eh"), kSection).row_at(kFunction));
  EXPECT_FALSE(UnwindRules(frames_of("\x3f"), kSection).row_at(kFunction));  // no such instruction
  EXPECT_FALSE(UnwindRules(frames_of("\x0b"), kSection).row_at(kFunction));  // a state that was not remembered
  EXPECT_FALSE(UnwindRules("", kSection).row_at(kFunction));
}

// Whatever the bytes are, there is an answer or none.
TEST(UnwindRules, OfBytesThatMakeNoSense) {
  std::mt19937 random(1);
  const std::string whole = frames_of(kPush + std::string("\x0f\x03\x77\x08\x06\x16\x06\x02\x91\x00\x0a\x0b", 12));
  const ReadWord read = [&](std::uint64_t address) -> std::optional<std::uint64_t> {
    return address % 3 ? address : 0;
  };
  std::size_t answers = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    const std::size_t changes = random() % 4;
    for (std::size_t k = 0; k < changes; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    const UnwindRules rules(bytes, kSection);
    for (const std::uint64_t offset : {0u, 1u, 4u, 8u, 31u}) {
      const auto row = rules.row_at(kFunction + offset);
      if (row && caller_of(*row, at(kFunction, 0x7000), read)) ++answers;
    }
  }
  EXPECT_GT(answers, 1000u);
}

// push %rbp; mov %rsp,%rbp; sub $0x10,%rsp; BODY; leave; ret: the frame is 16 above the frame pointer.
StackDepth depth_of(const std::string& body) {
  const std::string code = std::string("\x55\x48\x89\xe5\x48\x83\xec\x10", 8) + body + "\xc9\xc3";
  return StackDepth(code, kFunction, {kFunction + 4, 16, 16});
}

TEST(StackDepth, CountsAlongAllPaths) {
  EXPECT_FALSE(StackDepth().at(kFunction));
  const StackDepth plain = depth_of("\x0f\x05");  // syscall
  EXPECT_FALSE(plain.at(kFunction)) << "the table knows it there";
  EXPECT_EQ(plain.at(kFunction + 4), 16);
  EXPECT_EQ(plain.at(kFunction + 8), 32);
  EXPECT_EQ(plain.at(kFunction + 9), 32);
  EXPECT_EQ(plain.at(kFunction + 10), 32);
  EXPECT_FALSE(plain.at(kFunction + 11)) << "after leave";
  EXPECT_FALSE(plain.at(kFunction + 12));
  // push %rbx; call; pop %rbx
  const StackDepth pushed = depth_of(std::string("\x53\xe8\0\0\0\0\x5b", 7));
  EXPECT_EQ(pushed.at(kFunction + 8), 32);
  EXPECT_EQ(pushed.at(kFunction + 9), 40);
  EXPECT_EQ(pushed.at(kFunction + 13), 40);
  EXPECT_EQ(pushed.at(kFunction + 15), 32);
  // jne over a push, and back together with another depth
  EXPECT_FALSE(depth_of("\x75\x01\x53\x90").at(kFunction + 8));
  // jne over a push and a pop
  EXPECT_EQ(depth_of("\x75\x02\x53\x5b\x90").at(kFunction + 12), 32);
  // sub %rax,%rsp: alloca; and $-32,%rsp: a realigned stack; pop %rsp
  EXPECT_FALSE(depth_of("\x48\x29\xc4").at(kFunction + 8));
  EXPECT_FALSE(depth_of("\x48\x83\xe4\xe0").at(kFunction + 8));
  EXPECT_FALSE(depth_of("\x5c").at(kFunction + 8));
  // lea -8(%rbp),%rsp; pop %rbx
  EXPECT_EQ(depth_of("\x48\x8d\x65\xf8\x5b").at(kFunction + 12), 24);
  // No code at all.
  EXPECT_FALSE(depth_of("\x06").at(kFunction + 8));
}

TEST(StackDepth, OfBytesThatMakeNoSense) {
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string body(random() % 24, '\0');
    for (char& byte : body) byte = static_cast<char>(random());
    depth_of(body).at(kFunction + random() % 32);
  }
}

TEST(CodeFile, OfThisProgram) {
  char path[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof path - 1), 0);
  const auto file = CodeFile::open(path);
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->id().empty());
  EXPECT_FALSE(file->mark().bytes.empty());
  EXPECT_FALSE(file->address_of(~std::uint64_t{0}));
  EXPECT_EQ(CodeFile::open("/proc/self/exe"), nullptr) << "a link leads elsewhere";
  EXPECT_EQ(CodeFile::open("/dev/null"), nullptr);
  EXPECT_EQ(CodeFile::open("/nowhere"), nullptr);
}

TEST(CodeFile, DamagedOnes) {
  char path[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof path - 1), 0);
  std::string head(1 << 16, '\0');
  FILE* program = fopen(path, "r");
  head.resize(fread(head.data(), 1, head.size(), program));
  fclose(program);
  std::string damaged_path = ::testing::TempDir() + "stacks_test.XXXXXX";
  const int fd = mkstemp(damaged_path.data());
  ASSERT_GE(fd, 0);
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = head;
    for (std::size_t k = random() % 6; k > 0; --k) bytes[random() % 1024] = static_cast<char>(random());
    ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    if (const auto file = CodeFile::open(damaged_path)) {
      file->row_at(random());
      file->address_of(random() % (1 << 16));
    }
  }
  close(fd);
  unlink(damaged_path.c_str());
}

}  // namespace
}  // namespace crashcut::stacks
