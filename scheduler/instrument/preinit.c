/* Stands for libtsan's object of that name, which would ask for libtsan itself. */
typedef int crashcut_nothing;
