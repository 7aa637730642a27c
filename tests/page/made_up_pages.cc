// made_up_pages DIR: writes pages of made-up results there, for a browser.
#include <fstream>

#include "recovery/result/page.h"
#include "tests/page/made_up_results.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string directory = argv[1];
  const auto write = [&](const std::string& name, const crashcut::result::Result& result) {
    std::ofstream(directory + "/" + name, std::ios::binary) << crashcut::result::page_text(result, "crashcut");
  };
  write("small.html", crashcut::tests::made_up_result(12, 8));
  write("large.html", crashcut::tests::made_up_result(10'000, 1000));
  const auto& texts = crashcut::tests::hostile_texts();
  for (std::size_t i = 0; i < texts.size(); ++i)
    write("hostile-" + std::to_string(i) + ".html", crashcut::tests::hostile_result(texts[i]));
}
