// made_up_pages DIR: writes pages of made-up results there, for a browser.
#include <fstream>

#include "recovery/result/page.h"
#include "tests/page/made_up_results.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string directory = argv[1];
  // Each line of a source file is `line`.
  const auto write = [&](const std::string& name, const crashcut::result::Result& result,
                         const std::string& line = "") {
    const auto read_source = [&](const std::string&) { return line + "\n" + line + "\n" + line; };
    std::ofstream(directory + "/" + name, std::ios::binary)
        << crashcut::result::page_text(result, "crashcut", read_source);
  };
  write("small.html", crashcut::tests::made_up_result(12, 8));
  write("large.html", crashcut::tests::made_up_result(10'000, 1000));
  write("machines.html", crashcut::tests::made_up_machines(24, 8));
  write("large_machines.html", crashcut::tests::made_up_machines(10'000, 1000));
  const auto& texts = crashcut::tests::hostile_texts();
  for (std::size_t i = 0; i < texts.size(); ++i)
    write("hostile-" + std::to_string(i) + ".html", crashcut::tests::hostile_result(texts[i]), texts[i]);
}
