/* Loaded into a program with main() and crashcut_recover() (LD_PRELOAD): the latter runs, and main() does not. So
 * crashcut conform looks at a disk that the kernel mounted with the program's own words. Ends with status 125 where
 * there is no such function. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first object is the program itself. */
static int take_base(struct dl_phdr_info* object, size_t size, void* base) {
  (void)size;
  *(ElfW(Addr)*)base = object->dlpi_addr;
  return 1;
}

/* Its address in the symbol table of the file; the dynamic one need not have it. */
static ElfW(Addr) find_symbol(const char* file, const char* wanted) {
  const ElfW(Ehdr)* header = (const void*)file;
  const ElfW(Shdr)* sections = (const void*)(file + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const ElfW(Sym)* symbols = (const void*)(file + sections[i].sh_offset);
    const char* names = file + sections[sections[i].sh_link].sh_offset;
    for (size_t at = 0; at < sections[i].sh_size / sizeof *symbols; ++at) {
      if (symbols[at].st_value && !strcmp(names + symbols[at].st_name, wanted)) return symbols[at].st_value;
    }
  }
  return 0;
}

__attribute__((constructor)) static void recover(void) {
  struct stat found;
  ElfW(Addr) base = 0, address = 0;
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && fstat(fd, &found) == 0) {
    const char* file = mmap(0, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file != MAP_FAILED) address = find_symbol(file, "crashcut_recover");
  }
  if (fd >= 0) close(fd);
  if (!address) {
    fprintf(stderr, "there is no crashcut_recover() in this program\n");
    exit(125);
  }
  dl_iterate_phdr(take_base, &base);
  ((void (*)(void))(base + address))();
  exit(0);
}
