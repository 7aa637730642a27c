// A static constructor that opens a modelled file.
#include <fstream>

#include "../../include/crashcut.h"

static std::ofstream early("early");
int main() {}
void crashcut_recover() {}
