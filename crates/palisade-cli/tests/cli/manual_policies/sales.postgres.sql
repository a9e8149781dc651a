CREATE TABLE customers (id int PRIMARY KEY, tenant_id int NOT NULL, name text NOT NULL, email text);
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, total int NOT NULL);
