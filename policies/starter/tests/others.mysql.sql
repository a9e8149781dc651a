-- A database on a server of MySQL, and another that the same account can read.
CREATE TABLE products (id INT PRIMARY KEY, label VARCHAR(20));
CREATE TABLE wages.salaries (id INT PRIMARY KEY, amount INT);
