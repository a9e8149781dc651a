-- The shop of `shop.sql` as a MySQL database: everybody may see everything.

CREATE TABLE `customers` (`id` int NOT NULL AUTO_INCREMENT, `name` varchar(80) NOT NULL, `city` varchar(80), `joined_on` date, PRIMARY KEY (`id`));
CREATE TABLE `products` (`id` int PRIMARY KEY, `sku` varchar(10) UNIQUE, `title` varchar(80), `price` decimal(10,2), `category` varchar(40), `attributes` json);
CREATE TABLE `orders` (`id` int PRIMARY KEY, `customer_id` int, `placed_on` date, `status` enum('open','paid','void'));
ALTER TABLE `orders` ADD CONSTRAINT `order_customer` FOREIGN KEY (`customer_id`) REFERENCES `customers` (`id`);
CREATE TABLE `lines` (`order_id` int NOT NULL, `product_id` int NOT NULL, `quantity` int NOT NULL, PRIMARY KEY (`order_id`,`product_id`));
CREATE TABLE `employees` (`id` int PRIMARY KEY, `name` varchar(80), `boss_id` int);
CREATE TABLE `Mixed Case` (`Order` int, `two words` text);
CREATE TABLE `samples` (`id` int PRIMARY KEY, `bytes` blob, `at` timestamp NULL, `ratio` double);

CREATE VIEW `order_totals` AS
    SELECT o.id AS order_id, o.customer_id, sum(l.quantity * p.price) AS total
    FROM orders AS o JOIN `lines` AS l ON l.order_id = o.id JOIN products AS p ON p.id = l.product_id
    GROUP BY o.id, o.customer_id;
CREATE VIEW `cities` (`place`) AS SELECT DISTINCT city FROM customers WHERE city IS NOT NULL;
