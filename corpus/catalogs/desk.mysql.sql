-- The support desk of `desk.sql` as the MySQL database `main`, as SQLite's schema is called, so that the same policies
-- hold.

DROP TABLE IF EXISTS `customers`;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `customers` (
  `id` int NOT NULL AUTO_INCREMENT,
  `tenant_id` int NOT NULL,
  `name` varchar(80) NOT NULL,
  `email` varchar(120) DEFAULT NULL,
  `national_id` varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  `phone` varchar(40) DEFAULT NULL COMMENT 'with the country; (+44)',
  `birth_year` smallint unsigned DEFAULT NULL,
  `risk_note` text,
  `contact` varchar(240) GENERATED ALWAYS AS (concat(`name`,' <',`email`,'>')) VIRTUAL,
  `profile` json DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `customers_by_national_id` (`national_id`(10))
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE `tickets` (
  `id` int NOT NULL,
  `customer_id` int NOT NULL,
  `tenant_id` int NOT NULL,
  `subject` varchar(200) NOT NULL,
  `body` mediumtext,
  `status` enum('open','closed') NOT NULL DEFAULT 'open',
  `priority` tinyint DEFAULT NULL,
  `opened_on` date DEFAULT NULL,
  PRIMARY KEY (`id`),
  CONSTRAINT `ticket_customer` FOREIGN KEY (`customer_id`) REFERENCES `customers` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE `credentials` (`id` int PRIMARY KEY, `service` varchar(40) NOT NULL, `username` varchar(40) NOT NULL, `secret` varchar(80) NOT NULL);
CREATE TABLE `payroll` (`employee` varchar(40) PRIMARY KEY, `salary` int);
CREATE TABLE `invoices` (`id` int PRIMARY KEY, `amount` int);
CREATE TABLE `settings` (`key` varchar(40) PRIMARY KEY, `value` text);
CREATE TABLE `audit_events` (`id` int PRIMARY KEY, `tenant_id` int NOT NULL, `what` varchar(80) NOT NULL, `score` double);
CREATE TABLE `ticket_tags` (`ticket_id` int NOT NULL, `tag` varchar(40) NOT NULL);
CREATE TABLE `calls` (`tenant_id` int NOT NULL, `caller` varchar(40) NOT NULL, `seconds` int);
CREATE TABLE `teams` (`code` varchar(10) PRIMARY KEY, `region` varchar(10), `lead` varchar(40));
CREATE TABLE `readings` (`id` int PRIMARY KEY, `tenant_id` int, `value` text);
CREATE TABLE `far_away` (`id` int) ENGINE=FEDERATED CONNECTION='mysql://elsewhere/main/far';

LOCK TABLES `customers` WRITE;
INSERT INTO `customers` (`id`, `tenant_id`, `name`) VALUES (1, 1, 'Ada\'; CREATE TABLE not_there (a int);');
UNLOCK TABLES;

/*!50001 CREATE VIEW `customer_directory` AS SELECT
 1 AS `id`,
 1 AS `person`,
 1 AS `ident`,
 1 AS `tenant`*/;

DELIMITER ;;
CREATE DEFINER=`root`@`localhost` FUNCTION `price_of`(item INT, currency VARCHAR(3)) RETURNS decimal(10,2)
    READS SQL DATA
BEGIN
  DECLARE price DECIMAL(10,2);
  RETURN 1.0;
END ;;
CREATE DEFINER=`root`@`localhost` PROCEDURE `close_tickets`(IN before_day DATE)
BEGIN
  UPDATE tickets SET status = 'closed' WHERE opened_on < before_day;
END ;;
DELIMITER ;

/*!50001 DROP VIEW IF EXISTS `customer_directory`*/;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */
/*!50001 VIEW `customer_directory` AS select `customers`.`id` AS `id`,`customers`.`name` AS `person`,`customers`.`national_id` AS `ident`,`customers`.`tenant_id` AS `tenant` from `customers` */;
CREATE VIEW `open_tickets` AS
    SELECT t.id, t.subject, c.name AS customer
    FROM tickets AS t JOIN customers AS c ON c.id = t.customer_id
    WHERE t.status = 'open';
CREATE VIEW `credential_list` AS SELECT service, username, secret FROM credentials;
CREATE VIEW `risk_view` AS SELECT id, risk_note FROM customers;
