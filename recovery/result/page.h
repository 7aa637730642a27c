// Page: a result as one HTML file that needs nothing else: no network, no other file.
//
// The template is page.html, page.css and page.js of this folder. The result is in it as JSON (docs/json.md), which the
// script shows. Names and contents come from programs under test: the document has them as JSON text in which no
// character can end the element that holds it, and the script only ever sets them as text.
// Of source files, the page has the lines that the steps of a schedule are at, and those around them.
// Invariant: a page is at most kPageBytesMost long. Long texts are cut, the longest first, until it is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recovery/result/result.h"

namespace crashcut::result {

inline constexpr std::size_t kPageBytesMost = 5'000'000;

// The text of a source file that a result names without directories; empty if it cannot be read.
using ReadSource = std::function<std::string(const std::string& file)>;

// `crashcut` is the command as people are to type it.
std::string page_text(const Result& result, const std::string& crashcut, const ReadSource& read_source);
// One program under several models.
std::string page_text(const std::vector<Result>& rows, const std::string& crashcut, const ReadSource& read_source);

}  // namespace crashcut::result
